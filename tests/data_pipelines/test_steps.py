"""FinRL's steps as functions."""

import numpy as np
import pandas as pd
import pytest

from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.data_pipelines.features import add_indicators, turbulence
from alphaswarm_rl.data_pipelines.steps import clean, df_to_array, time_split
from alphaswarm_rl.market.panel import MarketPanel
from tests.market.panels import bars, gappy


def test_clean_sorts_and_drops_no_asset_for_a_later_gap():
    frame = gappy().rename(columns={"timestamp": "date", "asset": "tic"})
    shuffled = frame.sample(frac=1.0, random_state=0)
    cleaned = clean(shuffled)
    assert list(cleaned.columns[:2]) == ["timestamp", "asset"]
    assert set(cleaned["asset"]) == {"AAA", "BBB", "CCC"}
    assert len(cleaned) == len(frame)
    assert MarketPanel.from_frame(cleaned).fingerprint == MarketPanel.from_frame(frame).fingerprint


def test_clean_refuses_a_bar_that_is_there_twice():
    frame = pd.concat([bars(), bars().iloc[[4]]], ignore_index=True)
    with pytest.raises(DataError, match=r"row 90 \(asset 'BBB', 2020-01-02.*twice"):
        clean(frame)


def test_time_split_is_half_open_in_utc():
    frame = bars()
    frame["timestamp"] = frame["timestamp"].dt.tz_localize("UTC")
    part = time_split(frame, "2020-01-03", "2020-01-07")
    assert part["timestamp"].dt.strftime("%m-%d").unique().tolist() == ["01-03", "01-06"]
    assert part.index.tolist() == list(range(6))
    assert len(time_split(frame, None, None)) == len(frame)


def test_df_to_array_is_ticker_major():
    panel = add_indicators(MarketPanel.from_frame(bars()), ["rsi_5", "macd"])
    with pytest.raises(DataError, match="'turbulence'"):
        df_to_array(panel)
    panel = panel.with_market_features({"turbulence": turbulence(panel, 5)})
    price, tech, risk = df_to_array(panel)
    assert price.shape == (30, 3)
    assert tech.shape == (30, 6)
    assert risk.shape == (30,)
    np.testing.assert_array_equal(tech[:, 2], panel.features[:, 1, 0])
    np.testing.assert_array_equal(tech[:, 3], panel.features[:, 1, 1])
    assert (risk[:6] == 0).all()


@pytest.mark.parametrize("step", [clean, lambda frame: time_split(frame, None, None)])
def test_a_frame_without_moments_is_refused(step):
    with pytest.raises(DataError, match="'timestamp'"):
        step(bars().drop(columns="timestamp"))

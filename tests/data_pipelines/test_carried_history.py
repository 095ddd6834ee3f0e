"""One bar after the other gives the market of the whole history, to the last bit."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from alphaswarm_rl.core.contracts import DataRequest, State
from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.data_pipelines.carried_history import CarriedHistory
from alphaswarm_rl.data_pipelines.frame import FramePipeline
from alphaswarm_rl.market.fills import fill_policy
from alphaswarm_rl.market.market import market_of
from tests.inference.deciding import frame_of_bars, row_of

NAMES = ["macd", "boll_ub", "boll_lb", "rsi_5", "cci_6", "dx_4", "atr_3", "close_7_sma", "returns_3", "volatility_4"]
TABLES = ("close", "fill_price", "tradable", "volume", "features", "market_features", "dividends", "splits", "ends")


def pipeline_of(**changes):
    kwargs = {"name": "bars", "features": NAMES, "market_features": ["turbulence_8"], "scaler": "zscore", **changes}
    return FramePipeline(FramePipeline.Config(**kwargs))


def built(pipeline, frame):
    return pipeline.build(DataRequest(frames={"bars": frame}))


def in_order(frame):
    return frame.sort_values(["date", "tic"], ignore_index=True)


@given(
    seed=st.integers(0, 10_000),
    first=st.integers(5, 60),
    fill=st.sampled_from(["next_open", "same_close"]),
    dtype=st.sampled_from(["float32", "float64"]),
    actions=st.booleans(),
)
@effort(max_examples=12)
def test_bars_one_at_a_time_are_the_whole_history_to_the_last_bit(seed, first, fill, dtype, actions):
    frame = frame_of_bars(seed, bars=90, actions=actions)
    pipeline = pipeline_of(feature_dtype=dtype)
    bars = built(pipeline, frame)
    fitted = pipeline.fit(bars.cut(0, 40))
    history = CarriedHistory(pipeline, fitted, bars.cut(0, first + 1), first=2, warmup=1, fill=fill_policy(fill))
    for index in range(first + 1, bars.num_bars):
        market = history.add(row_of(bars, index))
    days = bars.timestamps[: index + 1]
    whole = dataclasses.replace(
        built(pipeline, frame[frame["date"] <= days[-1]]), periods_per_year=bars.periods_per_year
    )
    expected = market_of(
        pipeline.apply(whole.cut(2, whole.num_bars, warmup=1), fitted), fill_policy(fill), market.backend
    )
    for name in TABLES:
        found, other = getattr(market, name), getattr(expected, name)
        assert (found is None) == (other is None), name
        if found is not None:
            np.testing.assert_array_equal(found, other, err_msg=name)
    np.testing.assert_array_equal(market.panel.feature_from, expected.panel.feature_from)
    np.testing.assert_array_equal(market.panel.market_feature_from, expected.panel.market_feature_from)
    np.testing.assert_array_equal(market.panel.known_at, expected.panel.known_at)
    np.testing.assert_array_equal(market.panel.close, expected.panel.close)


def test_what_was_handed_out_stays_as_it_is():
    frame = frame_of_bars(1, bars=60)
    pipeline = pipeline_of(scaler="none")
    bars = built(pipeline, frame)
    history = CarriedHistory(
        pipeline, State(data=pipeline.fit(bars).data), bars.cut(0, 50), first=0, warmup=0, fill=fill_policy("next_open")
    )
    before = history.market
    kept = before.panel.fingerprint
    for index in range(50, 60):
        history.add(row_of(bars, index))
    assert before.panel.fingerprint == kept
    assert history.market.panel.fingerprint != kept


def test_columns_that_the_pipeline_takes_as_they_are_come_with_the_bar():
    frame = frame_of_bars(2, bars=50)
    frame["mood"] = np.random.default_rng(0).normal(size=len(frame))
    frame["vix"] = 1.0
    pipeline = pipeline_of(feature_columns=["mood"], features=["rsi_5"], market_features=[], scaler="minmax")
    bars = built(pipeline, frame)
    fitted = pipeline.fit(bars)
    history = CarriedHistory(pipeline, fitted, bars.cut(0, 40), first=0, warmup=0, fill=fill_policy("next_open"))
    table = frame.pivot(index="date", columns="tic", values="mood").to_numpy()
    with pytest.raises(DataError, match="'mood'"):
        history.add(row_of(bars, 40))
    for index in range(40, 50):
        history.add(dataclasses.replace(row_of(bars, index), features={"mood": table[index]}))
    expected = pipeline.apply(bars, fitted).features
    np.testing.assert_array_equal(history.market.panel.features, expected)
    with pytest.raises(DataError, match="'other'"):
        history.add(dataclasses.replace(row_of(bars, 49), features={"mood": table[49], "other": table[49]}))


def test_bars_with_other_features_than_the_pipelines_are_refused():
    frame = frame_of_bars(2, bars=50)
    pipeline, other = pipeline_of(), pipeline_of(features=["macd"])
    bars = built(other, frame)
    with pytest.raises(DataError, match="rsi_5"):
        CarriedHistory(pipeline, State(), bars, first=0, warmup=0, fill=fill_policy("next_open"))

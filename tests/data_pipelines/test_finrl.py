"""FinRL's two classes over our steps."""

import numpy as np
import pandas as pd
import pytest

from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.data_pipelines import DataProcessor, FeatureEngineer, features
from alphaswarm_rl.data_pipelines import finrl as module
from alphaswarm_rl.data_pipelines.remote import interval_of
from alphaswarm_rl.data_pipelines.steps import clean, df_to_array
from alphaswarm_rl.market.panel import MarketPanel
from tests.market.panels import bars


@pytest.fixture
def frame():
    """Bars of three assets in FinRL's columns, shuffled: nothing rests on their order."""
    found = bars(60).rename(columns={"timestamp": "date", "asset": "tic"})
    return found.sample(frac=1.0, random_state=0)


def test_features_are_those_of_the_panel_row_by_row(frame):
    made = FeatureEngineer(tech_indicator_list=["macd", "rsi_14", "close_5_sma"]).preprocess_data(frame)
    panel = MarketPanel.from_frame(clean(frame))
    assert list(made.columns[:2]) == ["date", "tic"]
    assert len(made) == len(frame)
    for name in ("macd", "rsi_14", "close_5_sma"):
        expected = features.indicator(panel, name)
        for number, asset in enumerate(panel.assets):
            rows = made[made["tic"].str.upper() == asset]
            at = np.searchsorted(panel.timestamps, rows["date"].to_numpy().astype(panel.timestamps.dtype))
            np.testing.assert_array_equal(rows[name], expected[at, number])


def test_what_is_not_asked_for_is_not_added(frame):
    assert "macd" not in FeatureEngineer(False).preprocess_data(frame)
    assert set(FeatureEngineer().preprocess_data(frame)) >= set(module.INDICATORS)
    with pytest.raises(DataError, match="there is no such indicator"):
        FeatureEngineer(tech_indicator_list=["maccd"])


def test_the_vix_is_handed_in(frame):
    engineer = FeatureEngineer(False, use_vix=True)
    with pytest.raises(DataError, match="no series of the VIX was handed in"):
        engineer.preprocess_data(frame)
    days = pd.to_datetime(sorted(frame["date"].unique()))
    vix = pd.DataFrame({"date": days, "close": np.arange(len(days), dtype=float)})
    made = engineer.preprocess_data(frame, vix)
    assert (made.groupby("date")["vix"].nunique(dropna=False) == 1).all()
    assert made["vix"].dropna().is_monotonic_increasing


def test_a_processor_takes_bars_of_any_pipeline():
    processor = DataProcessor("bundled", tech_indicator=["macd", "rsi_30"], dataset="sp500_20")
    downloaded = processor.download_data(["AAPL", "KO"], "2020-01-02", "2021-06-01")
    assert set(downloaded["tic"]) == {"AAPL", "KO"}
    assert str(downloaded["date"].min())[:10] == "2020-01-02"
    assert str(downloaded["date"].max())[:10] == "2021-05-28"
    made = processor.add_turbulence(processor.add_technical_indicator(processor.clean_data(downloaded)))
    arrays = processor.df_to_array(made)
    panel = features.add_indicators(MarketPanel.from_frame(downloaded), ["macd", "rsi_30"])
    ours = df_to_array(panel.with_market_features({"turbulence": features.turbulence(panel)}))
    np.testing.assert_array_equal(arrays.price, ours.price)
    known = np.isfinite(arrays.tech)
    assert known[40:].all()
    np.testing.assert_allclose(arrays.tech[known], ours.tech[known], rtol=1e-6)
    np.testing.assert_allclose(arrays.turbulence[260:], ours.turbulence[260:], rtol=1e-6)


def test_missing_columns_and_impossible_intervals_are_named():
    processor = DataProcessor("bundled", dataset="sp500_20")
    with pytest.raises(DataError, match="time_interval of the data pipeline 'bundled'"):
        processor.download_data(["KO"], "2020-01-01", "2021-01-01", "1D")
    downloaded = processor.download_data(["KO"], "2020-01-01", "2020-03-01")
    with pytest.raises(DataError, match="column 'macd'"):
        processor.df_to_array(downloaded)
    twice = pd.concat([downloaded, downloaded])
    with pytest.raises(DataError, match="the bar is there twice"):
        processor.clean_data(twice)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("1D", "1d"),
        ("1Day", "1d"),
        ("5Min", "5m"),
        ("15m", "15m"),
        ("1H", "1h"),
        ("1Hour", "1h"),
        ("1wk", "1wk"),
        ("x", "x"),
    ],
)
def test_lengths_of_bars(written, meant):
    assert interval_of(written) == meant


def test_services_are_asked_in_their_own_words(monkeypatch):
    asked = []

    class Refuses:
        def build(self, request):
            asked.append(request.symbols)
            raise DataError("no network", "here", "None.")

    monkeypatch.setattr(module, "build_from_config", lambda ref, kind: asked.append((ref, kind)) or Refuses())
    for source, interval in (("yahoofinance", "interval"), ("alpaca", "bar")):
        with pytest.raises(DataError, match="no network"):
            DataProcessor(source).download_data(["KO"], "2020-01-01", "2021-01-01", "5Min")
        alias = {"yahoofinance": "yahoo"}.get(source, source)
        assert asked[-2:] == [({"class": alias, "kwargs": {interval: "5m"}}, "data_pipeline"), ("KO",)]

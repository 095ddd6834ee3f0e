"""Turbulence, covariance, joined series."""

import numpy as np
import pandas as pd
import pytest

from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.data_pipelines.features import turbulence, vix_join
from alphaswarm_rl.market.covariance import bar_returns, covariance
from alphaswarm_rl.market.panel import MarketPanel
from tests.market.panels import bars, gappy


def test_turbulence_is_a_mahalanobis_distance_to_the_bars_before():
    panel = MarketPanel.from_frame(bars(80))
    measured = turbulence(panel, lookback=20, shrinkage=0.0)
    returns = bar_returns(panel)
    for bar in (21, 50, 79):
        history = returns[bar - 20 : bar]
        distance = returns[bar] - history.mean(axis=0)
        expected = distance @ np.linalg.inv(np.cov(history, rowvar=False)) @ distance
        assert measured[bar] == pytest.approx(expected)
    assert np.isnan(measured[:21]).all()
    assert np.isfinite(measured[21:]).all()


def test_without_correlation_it_is_the_sum_of_squared_scores():
    panel = MarketPanel.from_frame(bars(40))
    returns = bar_returns(panel)
    history = returns[19:39]
    scores = (returns[39] - history.mean(axis=0)) / history.std(axis=0, ddof=1)
    assert turbulence(panel, 20, shrinkage=1.0)[39] == pytest.approx((scores**2).sum())


def test_two_assets_that_move_as_one_do_not_blow_it_up():
    frame = bars(60, assets=("AAA",))
    twins = pd.concat([frame, frame.assign(asset="BBB")])
    assert np.nanmax(turbulence(MarketPanel.from_frame(twins), 20)) < 100


def test_assets_that_are_not_there_or_do_not_move_do_not_count():
    frame = gappy(90)
    flat = frame[frame["asset"] == "AAA"].assign(asset="FLAT", open=1.0, high=1.0, low=1.0, close=1.0)
    measured = turbulence(MarketPanel.from_frame(pd.concat([frame, flat])), 20)
    np.testing.assert_array_equal(measured, turbulence(MarketPanel.from_frame(frame), 20))
    assert np.isfinite(measured[21:]).all()


@pytest.mark.parametrize("bar", [40, 70])
def test_nothing_after_t_changes_anything_at_t(bar):
    frame = gappy(90)
    noisy = frame.copy()
    later = noisy["timestamp"] > np.sort(frame["timestamp"].unique())[bar]
    for price in ("open", "high", "low", "close"):
        noisy.loc[later, price] *= np.random.default_rng(2).uniform(0.3, 3.0, later.sum())
    before, after = MarketPanel.from_frame(frame), MarketPanel.from_frame(noisy)
    for measure in (turbulence, covariance):
        one, other = measure(before, 20), measure(after, 20)
        assert one[: bar + 1].tobytes() == other[: bar + 1].tobytes()
        assert one[bar + 1 :].tobytes() != other[bar + 1 :].tobytes()


def test_covariance_is_the_sample_covariance_of_the_last_returns():
    panel = MarketPanel.from_frame(bars(50))
    all_bars = covariance(panel, 20)
    returns = bar_returns(panel)
    np.testing.assert_allclose(all_bars[30], np.cov(returns[11:31], rowvar=False))
    assert (all_bars[:20] == 0).all()
    np.testing.assert_array_equal(covariance(panel, 20, at=[30, 49]), all_bars[[30, 49]])


def test_covariance_of_an_asset_without_enough_bars_is_zero():
    panel = MarketPanel.from_frame(gappy(40))
    measured = covariance(panel, 20)
    assert (measured[24, 1] == 0).all()
    assert (measured[25, 1] != 0).all()


def test_a_daily_series_joins_daily_bars_of_its_own_day():
    panel = MarketPanel.from_frame(bars(5))
    days = np.array(["2020-01-02", "2020-01-03", "2020-01-07", "2020-01-08"], "datetime64[D]")
    assert vix_join(panel, days, [12.0, 13.0, 14.0, 15.0]).tolist()[1:] == [12, 13, 13, 14]
    assert np.isnan(vix_join(panel, days, [12.0, 13.0, 14.0, 15.0])[0])
    assert vix_join(panel, days, [12.0, np.nan, 14.0, 15.0]).tolist()[1:] == [12, 12, 12, 14]


def test_an_hourly_bar_does_not_see_the_close_of_its_own_day():
    hours = pd.date_range("2020-01-01", periods=72, freq="h")
    panel = MarketPanel.from_closes(pd.DataFrame({"A": np.arange(1.0, 73.0)}, index=hours))
    days = np.array(["2020-01-01", "2020-01-02", "2020-01-03"], "datetime64[D]")
    joined = vix_join(panel, days, [1.0, 2.0, 3.0])
    # The last bar of a day is over when the day is, and may see it.
    assert np.isnan(joined[:23]).all()
    assert joined[23:47].tolist() == [1] * 24
    assert joined[47:71].tolist() == [2] * 24
    assert joined[71] == 3


def test_a_series_that_is_none_is_refused():
    panel = MarketPanel.from_frame(bars(5))
    days = np.array(["2020-01-03", "2020-01-02"], "datetime64[D]")
    with pytest.raises(DataError, match="row 1"):
        vix_join(panel, days, [1.0, 2.0])
    with pytest.raises(DataError, match="2 moments and 1 values"):
        vix_join(panel, days, [1.0])

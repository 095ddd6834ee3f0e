"""Measures of curves with their intervals."""

import math

import numpy as np
import pytest

from alphaswarm_rl.statistics.curve_intervals import curve_intervals, mean_interval, periods_per_year
from alphaswarm_rl.statistics.performance import performance

MEASURES = ("total_return", "max_drawdown", "annual_return", "sharpe", "sortino", "volatility")


def curve(seed=0, periods=200, drift=0.001):
    returns = drift + 0.01 * np.random.default_rng(seed).standard_normal(periods)
    return 100.0 * np.concatenate([[1.0], np.cumprod(1.0 + returns)])


def test_estimates_are_the_measures_themselves_and_lie_in_their_intervals():
    values = curve()
    found, expected = curve_intervals([values], 252.0), performance(values, 252.0)
    assert set(found) == set(MEASURES)
    for name in MEASURES:
        assert found[name].estimate == pytest.approx(expected[name], rel=1e-9), name
        assert found[name].low < found[name].high
        assert found[name].resamples == 1000
    assert found["sharpe"].low < found["sharpe"].estimate < found["sharpe"].high


def test_a_worked_example():
    found = curve_intervals([np.array([100.0, 110.0, 99.0, 108.9])], 3.0, resamples=50)
    assert found["total_return"].estimate == pytest.approx(0.089)
    assert found["annual_return"].estimate == pytest.approx(0.089)
    assert found["max_drawdown"].estimate == pytest.approx(-0.1)
    assert found["max_drawdown"].high <= 0.0
    assert found["sortino"].estimate == pytest.approx(math.sqrt(3) * (0.1 / 3) / math.sqrt(0.01 / 3))


def test_a_fall_from_the_start_is_a_drawdown():
    assert curve_intervals([np.array([100.0, 90.0, 95.0])], None)["max_drawdown"].estimate == pytest.approx(-0.1)


def test_what_does_not_exist_is_undefined():
    still = curve_intervals([np.full(20, 5.0)], 252.0)
    assert math.isnan(still["sharpe"].estimate)
    assert math.isnan(still["sortino"].estimate)
    assert (still["total_return"].low, still["total_return"].high) == (0.0, 0.0)
    rising = curve_intervals([np.array([1.0, 1.1, 1.3, 1.35])], 252.0)
    assert math.isnan(rising["sortino"].estimate)
    assert rising["sharpe"].estimate > 0


def test_without_the_periods_of_a_year_nothing_is_measured_by_the_year():
    assert set(curve_intervals([curve()], None)) == {"total_return", "max_drawdown"}


def test_of_several_curves_means_are_resampled():
    curves = [curve(seed) for seed in range(5)]
    found = curve_intervals(curves, 252.0)
    mean = np.mean([performance(values, 252.0)["sharpe"] for values in curves])
    assert found["sharpe"].estimate == pytest.approx(mean)
    assert found["sharpe"].block_length == 1.0
    assert found["sharpe"].low < mean < found["sharpe"].high


def test_too_little_says_nothing_of_chance():
    assert curve_intervals([], 252.0) == {}
    assert curve_intervals([np.array([1.0, 2.0])], 252.0) == {}
    assert set(curve_intervals([np.array([1.0, 2.0, 3.0])], None)) == {"total_return", "max_drawdown"}
    assert mean_interval([1.0]) is None
    assert mean_interval([1.0, math.nan]) is None
    two = mean_interval([1.0, 3.0])
    assert two is not None
    assert (two.estimate, two.low, two.high) == (2.0, 1.0, 3.0)


def test_the_periods_of_a_year_come_back_from_the_volatility():
    curves = [curve(0), curve(1, 300)]
    volatility = float(np.mean([performance(values, 52.0)["volatility"] for values in curves]))
    assert periods_per_year(curves, volatility) == pytest.approx(52.0)
    assert periods_per_year([np.full(9, 5.0)], 0.1) is None
    assert periods_per_year(curves, 0.0) is None
    assert periods_per_year([], 0.1) is None
    assert periods_per_year([np.array([1.0, 2.0])], 0.1) is None  # one return has no deviation


def test_an_account_that_owes_more_than_it_has_lost_everything():
    found = curve_intervals([np.array([100.0, 50.0, -10.0, -10.0])], 250.0, resamples=50)
    assert found["annual_return"].estimate == -1.0
    assert found["total_return"].estimate == pytest.approx(-1.1)

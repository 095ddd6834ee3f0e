"""What a Sharpe ratio proves, against the numbers that its authors printed."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from alphaswarm_rl import statistics
from alphaswarm_rl.core.errors import StatisticsError
from alphaswarm_rl.statistics import SharpeEstimate

DAYS = 250
#: Moments that some series has: a kurtosis is at least the squared skewness and 1.
MOMENTS = st.tuples(st.floats(-2, 2), st.floats(0, 5)).map(lambda pair: (pair[0], 1 + pair[0] ** 2 + pair[1]))
ESTIMATES = st.builds(
    lambda sharpe, periods, moments: SharpeEstimate(sharpe, periods, *moments),
    st.floats(-0.4, 0.4),
    st.integers(10, 5000),
    MOMENTS,
)


def daily(sharpe, periods, skew=0.0, kurtosis=3.0):
    return SharpeEstimate(sharpe / math.sqrt(DAYS), periods, skew, kurtosis)


@pytest.mark.parametrize(
    ("skew", "kurtosis", "trials", "threshold", "printed"),
    [
        (-3.0, 10.0, 100, 0.1132, 0.90039683),
        (-3.0, 10.0, 46, None, 0.95050171),
        (0.0, 3.0, 88, None, 0.95049082),
    ],
)
def test_the_deflated_sharpe_ratio_is_that_of_the_paper(skew, kurtosis, trials, threshold, printed):
    # An annual Sharpe ratio of 2.5 over five years, the trials' having a variance of one half.
    variance = 0.5 / DAYS
    assert statistics.deflated_sharpe_ratio(daily(2.5, 1250, skew, kurtosis), variance, trials) == pytest.approx(
        printed, abs=1e-8
    )
    if threshold is not None:
        assert statistics.expected_maximum_sharpe(variance, trials) == pytest.approx(threshold, abs=5e-5)


def test_the_probabilistic_sharpe_ratio_is_that_of_the_paper():
    assert statistics.probabilistic_sharpe_ratio(SharpeEstimate(0.458, 24, -2.448, 10.164)) == pytest.approx(
        0.91336108, abs=1e-8
    )
    assert statistics.probabilistic_sharpe_ratio(SharpeEstimate(0.458, 24)) == pytest.approx(0.98167492, abs=1e-8)


@pytest.mark.parametrize(
    ("per_year", "observations", "years"), [(252, 688.208, 2.73), (52, 147.099, 2.83), (12, 38.878, 3.24)]
)
def test_the_minimum_track_record_is_that_of_the_paper(per_year, observations, years):
    # A yearly Sharpe ratio of 2 against 1.
    found = statistics.minimum_track_record(SharpeEstimate(2 / math.sqrt(per_year), 10), 1 / math.sqrt(per_year))
    assert found == pytest.approx(observations, abs=5e-4)
    assert found / per_year == pytest.approx(years, abs=5e-3)


def test_the_expected_maximum_is_that_of_the_paper():
    assert statistics.expected_maximum_sharpe(1.0, 10) == pytest.approx(1.57459830, abs=1e-8)
    assert statistics.expected_maximum_sharpe(1.0, 45) == pytest.approx(2.23564, abs=5e-6)
    # Five years of data support at most 45 trials.
    assert statistics.minimum_backtest_length(45) < 5 < statistics.minimum_backtest_length(46)
    assert statistics.minimum_backtest_length(45, 2.0) == pytest.approx(statistics.minimum_backtest_length(45) / 4)
    assert statistics.minimum_backtest_length(1000) <= 2 * math.log(1000)


def test_the_expected_maximum_is_what_noise_shows():
    drawn = np.random.default_rng(0).standard_normal((4000, 50)).max(axis=1)
    assert statistics.expected_maximum_sharpe(1.0, 50) == pytest.approx(drawn.mean(), abs=0.03)


def test_the_moments_of_returns_are_those_of_a_population():
    returns = np.random.default_rng(1).standard_t(4, 300) * 0.01 + 0.001
    found = SharpeEstimate.of(returns, risk_free=0.0001)
    assert found.sharpe == pytest.approx((returns.mean() - 0.0001) / returns.std(ddof=1))
    assert found.skew == pytest.approx(stats.skew(returns))
    assert found.kurtosis == pytest.approx(stats.kurtosis(returns, fisher=False))
    assert found.periods == 300


def test_one_trial_is_not_deflated():
    estimate = daily(1.0, 500, -1.0, 6.0)
    assert statistics.deflated_sharpe_ratio(estimate, math.nan, 1) == statistics.probabilistic_sharpe_ratio(estimate)
    assert statistics.expected_maximum_sharpe(1.0, 1.01) == 0.0


@given(ESTIMATES)
def test_half_lies_above_the_estimate_itself(estimate):
    assert statistics.probabilistic_sharpe_ratio(estimate, estimate.sharpe) == pytest.approx(0.5)


@given(ESTIMATES, st.floats(0.01, 0.5), st.floats(0.55, 0.999))
def test_a_minimum_track_record_is_just_as_sure(estimate, ahead, confidence):
    threshold = estimate.sharpe - ahead
    least = statistics.minimum_track_record(estimate, threshold, confidence)
    error = estimate.error * math.sqrt((estimate.periods - 1) / (least - 1))
    assert stats.norm.cdf(ahead / error) == pytest.approx(confidence)


@given(ESTIMATES, st.floats(1e-6, 0.1), st.floats(1, 1e5), st.floats(1.01, 10))
def test_more_trials_and_more_different_ones_deflate_more(estimate, variance, trials, factor):
    found = statistics.deflated_sharpe_ratio(estimate, variance, trials)
    assert statistics.deflated_sharpe_ratio(estimate, variance, trials * factor) <= found
    assert statistics.deflated_sharpe_ratio(estimate, variance * factor, trials) <= found


def test_the_effective_number_of_trials():
    rng = np.random.default_rng(2)
    alone = rng.standard_normal((5000, 20))
    assert statistics.effective_trials(alone) == pytest.approx(20, rel=0.02)
    assert statistics.effective_trials(np.repeat(alone[:, :1], 20, axis=1)) == pytest.approx(1.0)
    common = np.sqrt(0.5) * rng.standard_normal((5000, 1)) + np.sqrt(0.5) * alone
    correlation = np.corrcoef(common.T)
    mean = correlation[np.triu_indices(20, 1)].mean()
    assert statistics.effective_trials(common) == pytest.approx(mean + (1 - mean) * 20)
    # Opposites are not more than they are, and one that stands still is one of its own.
    assert statistics.effective_trials(np.column_stack([alone[:, 0], -alone[:, 0]])) == 2.0
    assert statistics.effective_trials(np.column_stack([alone[:, 0], np.full(5000, 0.1)])) == pytest.approx(2.0)
    assert statistics.effective_trials(alone[:, :1]) == 1.0


def test_the_variance_of_trials():
    trials = np.random.default_rng(3).standard_normal((100, 4)) * 0.01
    ratios = trials.mean(axis=0) / trials.std(axis=0, ddof=1)
    assert statistics.sharpe_variance(trials) == pytest.approx(ratios.var(ddof=1))
    assert statistics.sharpe_variance(np.column_stack([trials, np.zeros(100)])) == pytest.approx(
        np.append(ratios, 0).var(ddof=1)
    )
    assert statistics.sharpe_variance(trials[:, :1]) == 0.0


def test_what_cannot_be_said_is_nan():
    still = SharpeEstimate.of(np.full(50, 0.01))
    assert math.isnan(still.sharpe)
    assert math.isnan(statistics.probabilistic_sharpe_ratio(still))
    assert math.isnan(statistics.deflated_sharpe_ratio(still, 0.1, 10))
    assert math.isnan(statistics.minimum_track_record(still))
    assert math.isnan(statistics.probabilistic_sharpe_ratio(SharpeEstimate.of(np.array([0.01]))))
    assert statistics.probabilistic_sharpe_ratio(SharpeEstimate(0.1, 2)) == pytest.approx(0.54, abs=0.01)
    # No series has these moments: its error would be the root of something below 0.
    assert math.isnan(statistics.probabilistic_sharpe_ratio(SharpeEstimate(1.0, 100, 3.0, 1.0)))


def test_a_track_record_below_the_threshold_is_never_long_enough():
    assert statistics.minimum_track_record(daily(1.0, 100), daily(1.0, 100).sharpe) == math.inf


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: SharpeEstimate.of(np.array([0.1, np.nan, 0.2])), "1 of 3 are not finite"),
        (lambda: SharpeEstimate.of(np.zeros((3, 2))), r"shape is \(3, 2\)"),
        (lambda: statistics.expected_maximum_sharpe(1.0, 0.5), "0.5 trials"),
        (lambda: statistics.expected_maximum_sharpe(1.0, math.nan), "nan trials"),
        (lambda: statistics.expected_maximum_sharpe(-1.0, 10), "variance"),
        (lambda: statistics.expected_maximum_sharpe(math.nan, 10), "variance"),
        (lambda: statistics.minimum_track_record(daily(1.0, 100), confidence=1.0), "confidence 1.0"),
        (lambda: statistics.minimum_backtest_length(10, 0.0), "Sharpe ratio of 0.0"),
        (lambda: statistics.effective_trials(np.zeros((1, 5))), "5 trials of 1 periods"),
        (lambda: statistics.effective_trials(np.full((5, 2), np.inf)), "not finite"),
    ],
)
def test_bad_input_has_a_name(wrong, words):
    with pytest.raises(StatisticsError, match=words):
        wrong()

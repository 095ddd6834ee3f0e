"""Noise in, no edge out: the best of many random strategies looks good, and counting them says that it is nothing."""

import math

import numpy as np
import pytest

from alphaswarm_rl.statistics import (
    SharpeEstimate,
    deflated_sharpe_ratio,
    effective_trials,
    probabilistic_sharpe_ratio,
    probability_of_backtest_overfitting,
    rademacher_anti_serum,
    sharpe_variance,
)

DAYS, STRATEGIES, YEAR = 1250, 200, 252
#: How large one study's planted yearly Sharpe ratio must be to be seen among 200 in five years.
PLANTED = 3.5
#: Studies of each kind of noise.
STUDIES = 40


def market(kind, rng):
    """The returns of a market on which nobody can earn."""
    if kind == "normal":
        return 0.01 * rng.standard_normal(DAYS)
    if kind == "heavy tails":
        return 0.006 * rng.standard_t(3, DAYS)
    shocks = rng.standard_normal(DAYS)
    variance = np.full(DAYS, 1e-4)
    for day in range(1, DAYS):  # volatility that comes in clusters
        variance[day] = 2e-6 + 0.1 * variance[day - 1] * shocks[day - 1] ** 2 + 0.88 * variance[day - 1]
    return np.sqrt(variance) * shocks


def study(kind, seed):
    """Strategies that hold random positions, some for a day and some for weeks."""
    rng = np.random.default_rng(seed)
    held = rng.integers(1, 30, STRATEGIES)
    drawn = rng.choice([-1.0, 0.0, 1.0], size=(DAYS, STRATEGIES))
    positions = drawn[np.arange(DAYS)[:, np.newaxis] // held, np.arange(STRATEGIES)]
    return positions * market(kind, rng)[:, np.newaxis]


def best_of(returns):
    ratios = returns.mean(axis=0) / returns.std(axis=0, ddof=1)
    return int(ratios.argmax()), SharpeEstimate.of(returns[:, ratios.argmax()])


def deflated(returns):
    _, best = best_of(returns)
    return deflated_sharpe_ratio(best, sharpe_variance(returns), effective_trials(returns))


@pytest.mark.parametrize("kind", ["normal", "heavy tails", "clusters"])
def test_the_best_of_noise_looks_good_and_is_called_nothing(kind):
    looks_good = says_edge = 0
    for seed in range(STUDIES):
        returns = study(kind, seed)
        _, best = best_of(returns)
        looks_good += probabilistic_sharpe_ratio(best) > 0.95 and best.sharpe * math.sqrt(YEAR) > 0.9
        says_edge += deflated(returns) > 0.95
    assert looks_good >= 0.95 * STUDIES
    assert says_edge <= 0.05 * STUDIES


@pytest.mark.parametrize("kind", ["normal", "heavy tails", "clusters"])
def test_choosing_among_noise_is_overfitting(kind):
    found = [probability_of_backtest_overfitting(study(kind, seed), blocks=10) for seed in range(12)]
    assert 0.35 < np.mean([each.probability for each in found]) < 0.65
    # What was chosen is expected to earn nothing.
    chosen = np.mean([each.out_of_sample.mean() for each in found]) * math.sqrt(YEAR)
    assert abs(chosen) < 0.3
    assert np.mean([each.in_sample.mean() for each in found]) * math.sqrt(YEAR) > 1.2


def test_an_edge_among_noise_is_seen():
    seen = overfitted = 0
    for seed in range(12):
        returns = study("normal", seed)
        returns[:, 7] += PLANTED / math.sqrt(YEAR) * returns[:, 7].std()
        assert best_of(returns)[0] == 7
        seen += deflated(returns) > 0.95
        overfitted += probability_of_backtest_overfitting(returns, blocks=10).probability > 0.2
    assert seen == 12
    assert overfitted == 0


def test_no_bound_of_noise_is_above_nothing():
    returns = study("normal", 0)
    found = rademacher_anti_serum(returns / returns.std(axis=0), draws=500)
    assert (found.bounds < 0).all()

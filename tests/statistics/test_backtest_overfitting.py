"""The probability of backtest overfitting against published numbers, a slow definition and its own promises."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from alphaswarm_rl.core.errors import StatisticsError
from alphaswarm_rl.statistics import backtest_overfitting as module
from alphaswarm_rl.statistics import probability_of_backtest_overfitting


def waves(drift):
    """Without a generator, whose numbers might change."""
    period, configuration = np.arange(60)[:, np.newaxis], np.arange(8)[np.newaxis]
    return 0.01 * np.sin(1.3 * (period + 1) * (configuration + 1)) + drift * configuration


def noise(seed, periods=240, configurations=12):
    return 0.01 * np.random.default_rng(seed).standard_normal((periods, configurations))


def by_definition(returns, blocks):
    """Probability and logits, choice by choice."""
    parts = np.split(returns[len(returns) % blocks :], blocks)
    logits = []
    for ours in combinations(range(blocks), blocks // 2):
        halves = [np.concatenate([parts[n] for n in some]) for some in (ours, set(range(blocks)) - set(ours))]
        inside, outside = (half.mean(axis=0) / half.std(axis=0, ddof=1) for half in halves)
        rank = stats.rankdata(outside)[inside.argmax()] / (returns.shape[1] + 1)
        logits.append(math.log(rank / (1 - rank)))
    return np.mean(np.array(logits) <= 0), logits


def test_the_numbers_are_the_published_ones():
    found = probability_of_backtest_overfitting(waves(0.0005), blocks=6)
    assert found.probability == pytest.approx(0.2)
    assert len(found.logits) == 20
    assert found.slope == pytest.approx(-1.59635866, abs=1e-8)
    assert found.intercept == pytest.approx(1.19612384, abs=1e-8)
    assert found.probability_of_loss == pytest.approx(0.2)
    assert probability_of_backtest_overfitting(waves(0.0), blocks=6).probability == pytest.approx(0.85)


@pytest.mark.parametrize(("periods", "blocks"), [(240, 8), (245, 10), (16, 8), (40, 2), (4, 2)])
def test_it_is_the_definition_choice_by_choice(periods, blocks, monkeypatch):
    monkeypatch.setattr(module, "_AT_ONCE", 100)  # several chunks, whose order matters
    returns = noise(0, periods)
    probability, logits = by_definition(returns, blocks)
    found = probability_of_backtest_overfitting(returns, blocks)
    assert found.logits == pytest.approx(logits)
    assert found.probability == probability


def test_of_noise_it_is_a_half_on_average():
    found = [probability_of_backtest_overfitting(noise(seed), 8).probability for seed in range(60)]
    assert np.mean(found) == pytest.approx(0.5, abs=4 * np.std(found) / math.sqrt(60))


def test_one_that_is_truly_best_is_no_overfitting():
    returns = noise(1)
    returns[:, 5] += 0.02
    found = probability_of_backtest_overfitting(returns)
    assert (found.probability, found.probability_of_loss) == (0.0, 0.0)
    assert set(found.chosen.tolist()) == {5}


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.floats(1e-4, 1e4), st.randoms())
def test_neither_scale_nor_order_of_configurations_matters(seed, scale, random):
    returns = noise(seed, 60, 7)
    order = list(range(7))
    random.shuffle(order)
    found = probability_of_backtest_overfitting(returns, 6)
    assert probability_of_backtest_overfitting(scale * returns, 6).logits == pytest.approx(found.logits)
    shuffled = probability_of_backtest_overfitting(returns[:, order], 6)
    assert shuffled.logits.tolist() == found.logits.tolist()
    assert [order[chosen] for chosen in shuffled.chosen] == found.chosen.tolist()


def test_equal_configurations_share_their_rank():
    # Whatever is chosen, its twin is as good: of two the rank is 1.5 of 3, the median, and choosing was worth nothing.
    twins = np.repeat(noise(2, configurations=1), 2, axis=1)
    found = probability_of_backtest_overfitting(twins, 8)
    assert found.logits == pytest.approx(0.0)
    assert found.probability == 1.0


def test_what_does_not_vary_scores_nothing():
    returns = noise(3, 80, 4)
    returns[:, 1] = 0.0
    returns[:, 2] = 0.001  # interest
    returns[:, 3] = np.where(np.arange(80) < 40, 0.001, returns[:, 3])  # interest in half of the blocks
    returns[:, 0] = -np.abs(returns[:, 0])
    found = probability_of_backtest_overfitting(returns, 4)
    assert np.abs(found.in_sample).max() < 10
    # The first choice is the half with interest alone: nothing is above 0 there.
    assert found.in_sample[0] == 0.0


def test_a_score_of_ones_own():
    returns = noise(4, 60, 5)

    def ratio(rows):
        return rows.mean(axis=0) / rows.std(axis=0, ddof=1)

    own, sharpe = (probability_of_backtest_overfitting(returns, 6, score) for score in (ratio, None))
    assert own.logits == pytest.approx(sharpe.logits)
    mean = probability_of_backtest_overfitting(returns, 6, lambda rows: rows.mean(axis=0))
    assert mean.in_sample[0] == pytest.approx(returns[:30].mean(axis=0).max())


def test_a_line_through_one_point_has_no_slope():
    found = probability_of_backtest_overfitting(np.zeros((20, 2)), 4)
    assert math.isnan(found.slope)
    assert math.isnan(found.intercept)


@pytest.mark.parametrize(
    ("returns", "blocks", "words"),
    [
        (np.zeros((10, 2)), 12, "12 blocks of 10 periods: a block has no period"),
        (np.zeros((2, 2)), 2, "one period, and no deviation"),
        (np.zeros((10, 2)), 5, "5 blocks"),
        (np.zeros((10, 2)), 0, "0 blocks"),
        (np.zeros((10, 1)), 4, "nothing to choose from"),
        (np.zeros(10), 4, "shape"),
        (np.where(np.eye(10) > 0, np.nan, 0.0), 4, "10 of 100 are not finite"),
    ],
)
def test_bad_input_has_a_name(returns, blocks, words):
    with pytest.raises(StatisticsError, match=words):
        probability_of_backtest_overfitting(returns, blocks)


def test_a_score_that_is_undefined_is_refused():
    with pytest.raises(StatisticsError, match="not finite for some configuration"):
        probability_of_backtest_overfitting(noise(5), 4, lambda rows: np.full(rows.shape[1], np.nan))

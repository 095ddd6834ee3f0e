"""Tests that count how many there were."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphaswarm_rl.core.errors import MissingExtra, StatisticsError
from alphaswarm_rl.statistics import (
    benjamini_hochberg,
    holm_bonferroni,
    stepwise_superior,
    superior_predictive_ability,
)

#: The p-values of Benjamini and Hochberg (1995).
PUBLISHED = np.array(
    [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1]
)
#: With many ties.
P_VALUES = st.lists(st.integers(0, 40).map(lambda number: number / 40), max_size=25).map(np.array)


def strategies(skill, periods=400, seed=0):
    """The returns of strategies with these daily means, and those of a benchmark."""
    rng = np.random.default_rng(seed)
    benchmark = 0.01 * rng.standard_normal(periods)
    own = 0.005 * rng.standard_normal((periods, len(skill)))
    return benchmark[:, np.newaxis] + own + np.array(skill), benchmark


def test_the_published_discoveries():
    false_discoveries, any_false = benjamini_hochberg(PUBLISHED), holm_bonferroni(PUBLISHED)
    assert (false_discoveries.rejected.sum(), any_false.rejected.sum()) == (4, 3)
    expected = [0.0015, 0.003, 0.0095, 0.035625, 0.0603, 0.06385714]
    assert false_discoveries.adjusted[:6] == pytest.approx(expected, abs=1e-8)
    assert any_false.adjusted[:6] == pytest.approx([0.0015, 0.0056, 0.0247, 0.114, 0.2211, 0.278])


def test_answers_come_in_the_order_of_the_questions():
    order = np.random.default_rng(0).permutation(15)
    for test in (benjamini_hochberg, holm_bonferroni):
        whole, shuffled = test(PUBLISHED), test(PUBLISHED[order])
        assert shuffled.adjusted.tolist() == whole.adjusted[order].tolist()
        assert shuffled.rejected.tolist() == whole.rejected[order].tolist()


@given(P_VALUES, st.floats(0.001, 0.5))
def test_what_adjusted_p_values_always_are(p_values, significance):
    discoveries, careful = (test(p_values, significance) for test in (benjamini_hochberg, holm_bonferroni))
    assert (discoveries.rejected >= careful.rejected).all()
    order = np.argsort(p_values, kind="stable")
    for found in (discoveries, careful):
        assert (np.diff(found.adjusted[order]) >= 0).all()
        assert (found.adjusted >= p_values - 1e-15).all()
        assert (found.adjusted <= 1).all()
        assert found.rejected.tolist() == (found.adjusted <= significance).tolist()


def test_no_tests_have_no_answers():
    for test in (benjamini_hochberg, holm_bonferroni):
        assert test(np.array([])).rejected.tolist() == test(np.array([])).adjusted.tolist() == []


@pytest.mark.parametrize(
    ("p_values", "significance", "words"),
    [
        ([0.1, np.nan], 0.05, "1 of 2 are not finite"),
        ([0.1, 1.1], 0.05, "below 0 or above 1"),
        ([0.1, -0.1], 0.05, "below 0 or above 1"),
        ([[0.1]], 0.05, "shape"),
        ([0.1], 0.0, "significance 0.0"),
    ],
)
def test_what_is_no_probability_is_refused(p_values, significance, words):
    for test in (benjamini_hochberg, holm_bonferroni):
        with pytest.raises(StatisticsError, match=words):
            test(np.array(p_values), significance)


def test_skill_is_seen_and_named():
    returns, benchmark = strategies([0.0, 0.002, -0.002, 0.0015])
    found = superior_predictive_ability(returns, benchmark, resamples=500)
    assert found.lower <= found.p_value <= found.upper < 0.01
    assert stepwise_superior(returns, benchmark, resamples=500).tolist() == [False, True, False, True]


def test_the_best_of_many_without_skill_is_not_better():
    returns, benchmark = strategies([0.0] * 30)
    # The best one by itself looks better with a probability of 96 %.
    best = ((returns - benchmark[:, np.newaxis]).mean(axis=0) / 0.005 * 20).max()
    assert best > 1.75
    found = superior_predictive_ability(returns, benchmark, resamples=500)
    assert found.p_value > 0.1
    assert not stepwise_superior(returns, benchmark, resamples=500).any()


def test_the_same_seed_gives_the_same_answer():
    returns, benchmark = strategies([0.0, 0.0003])
    first = superior_predictive_ability(returns, benchmark, resamples=300, seed=1)
    assert first == superior_predictive_ability(returns, benchmark, resamples=300, seed=1)
    assert first != superior_predictive_ability(returns, benchmark, resamples=300, seed=2)
    blocks = superior_predictive_ability(returns, benchmark, resamples=300, seed=1, block_length=20)
    assert blocks != first


@pytest.mark.parametrize("test", [superior_predictive_ability, stepwise_superior])
@pytest.mark.parametrize(
    ("returns", "benchmark", "words"),
    [
        (np.zeros((10, 2)), np.zeros(9), "the benchmark: it has the shape"),
        (np.full((10, 2), np.nan), np.zeros(10), "20 of 20 are not finite"),
        (np.zeros((10, 2)), np.full(10, np.nan), "10 of 10 are not finite"),
        (np.ones((10, 2)), np.zeros(10), "strategy 0: it is always as far from the benchmark"),
        (np.ones((1, 2)), np.zeros(1), "there are 2 of 1 periods"),
        (np.ones((10, 0)), np.zeros(10), "there are 0 of 10 periods"),
    ],
)
def test_what_cannot_be_compared_has_a_name(test, returns, benchmark, words):
    with pytest.raises(StatisticsError, match=words):
        test(returns, benchmark)


def test_without_the_package_its_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "arch.bootstrap", None)
    monkeypatch.setitem(sys.modules, "arch", None)
    with pytest.raises(MissingExtra, match=r"alphaswarm-rl\[eval\]"):
        superior_predictive_ability(*strategies([0.0, 0.1], 50))

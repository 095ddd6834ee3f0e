"""The Rademacher complexity and the bounds it gives, against exact numbers and published software."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from alphaswarm_rl.core.errors import StatisticsError
from alphaswarm_rl.statistics import rademacher_anti_serum, rademacher_complexity
from alphaswarm_rl.statistics.rademacher import estimation_error

TABLES = arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(1, 5)), elements=st.floats(-3, 3))

#: What ml4t-diagnostic 0.1.0b2 draws for `waves()`, with 20,000 rows of signs.
PUBLISHED_COMPLEXITY = 0.10321807144156214


def waves():
    period, strategy = np.arange(250)[:, np.newaxis], np.arange(12)[np.newaxis]
    return math.sqrt(2) * np.sin(1.3 * (period + 1) * (strategy + 1) + strategy)


@pytest.mark.parametrize(
    ("table", "exact"), [([[1, -1]] * 4, 0.375), ([[1, 0], [0, 1], [1, -1]], 1 / 3), ([[2.0]] * 5, 0.0)]
)
def test_few_periods_are_enumerated(table, exact):
    found = rademacher_complexity(np.array(table))
    assert found.value == pytest.approx(exact, abs=1e-15)
    assert found.error == 0.0


def test_massarts_bound():
    # Four periods, the longer column has the length 4.
    assert rademacher_complexity(np.array([[2, 1]] * 4)).bound == pytest.approx(4 * math.sqrt(2 * math.log(2)) / 4)


def test_many_periods_are_drawn():
    found = rademacher_complexity(waves(), draws=20_000)
    assert found.value == pytest.approx(PUBLISHED_COMPLEXITY, abs=4 * math.sqrt(2) * found.error)
    assert 0 < found.error < 0.001
    assert found == rademacher_complexity(waves(), draws=20_000)
    assert found != rademacher_complexity(waves(), draws=20_000, seed=1)


def test_drawing_is_enumerating_on_average():
    table = waves()[:16]
    drawn = rademacher_complexity(np.concatenate([table, np.zeros((1, 12))]), draws=20_000)
    exact = rademacher_complexity(table).value * 16 / 17  # the 17th period adds nothing
    assert drawn.value == pytest.approx(exact, abs=4 * drawn.error)


def test_the_bounds_are_the_published_ones():
    assert 0.2 - 2 * 0.03 - estimation_error(2500, 100) == pytest.approx(-0.10442916, abs=1e-8)
    signals = {"kind": "information_coefficient"}
    assert 0.03 - 2 * 0.005 - estimation_error(2500, 100, **signals) == pytest.approx(-0.05682582, abs=1e-8)
    small = estimation_error(2500, 100, **signals, largest=0.02)
    assert 0.03 - 2 * 0.005 - small == pytest.approx(0.01846348, abs=1e-8)


def test_a_bound_is_the_estimate_less_both_errors():
    table = waves()
    found = rademacher_anti_serum(table, significance=0.1, draws=500)
    assert found.estimates == pytest.approx(table.mean(axis=0))
    assert found.data_snooping == 2 * found.complexity.value
    assert found.estimation_error == estimation_error(250, 12, significance=0.1)
    assert found.bounds == pytest.approx(found.estimates - found.data_snooping - found.estimation_error)
    signals = rademacher_anti_serum(np.sign(table), kind="information_coefficient", draws=500)
    assert signals.estimation_error == estimation_error(250, 12, kind="information_coefficient")


def test_bounds_hold_for_all_of_many_strategies_without_skill():
    rng = np.random.default_rng(0)
    for _ in range(10):
        assert (rademacher_anti_serum(rng.standard_normal((250, 50)), draws=200).bounds <= 0).all()
    # And are worth something: a daily Sharpe ratio of 1 is seen in ten years.
    skilled = rng.standard_normal((2500, 5)) + np.array([0, 0, 0, 0, 1.0])
    assert (rademacher_anti_serum(skilled, draws=200).bounds > 0).tolist() == [False] * 4 + [True]


@settings(max_examples=60, deadline=None)
@given(TABLES)
def test_what_a_complexity_always_is(table):
    found = rademacher_complexity(table)
    rows = [np.max(np.array(signs) @ table) for signs in product((-1, 1), repeat=len(table))]
    assert found.value == pytest.approx(np.mean(rows) / len(table), abs=1e-12)
    assert 0 <= found.value <= found.bound + 1e-12
    twins = rademacher_complexity(np.concatenate([table, table[:, :1]], axis=1))
    assert twins.value == pytest.approx(found.value, abs=1e-12)
    assert rademacher_complexity(np.concatenate([table, -table], axis=1)).value >= found.value - 1e-12


@pytest.mark.parametrize(
    ("table", "options", "words"),
    [
        (np.full((5, 2), np.nan), {}, "10 of 10 are not finite"),
        (np.zeros((0, 2)), {}, "there are none"),
        (np.zeros(5), {}, "shape"),
        (np.full((20, 2), 0.01), {}, "strategy 0.*size of 0.01.*volatility"),
        (np.column_stack([waves()[:, 0], 16 * waves()[:, 1]]), {}, "strategy 1.*size of 16"),
        (np.full((20, 2), 2.0), {"kind": "information_coefficient"}, "one is 2, and 1.0 was said"),
        (np.ones((20, 2)), {"significance": 0.0}, "significance 0.0"),
        (np.ones((20, 2)), {"draws": 1}, "1 draws"),
    ],
)
def test_bad_input_has_a_name(table, options, words):
    with pytest.raises(StatisticsError, match=words):
        rademacher_anti_serum(table, **options)

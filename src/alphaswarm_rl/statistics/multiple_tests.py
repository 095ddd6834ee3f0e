"""Several tests at once: p-values that count how many there were, and bootstrap tests against a benchmark.

Benjamini and Hochberg (1995) bound the share of false discoveries, Holm (1979) the chance of a single one. The tests of
Hansen (2005) and of Romano and Wolf (2005) are those of the package `arch`, extra `eval`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from alphaswarm_rl.core.errors import StatisticsError, require
from alphaswarm_rl.core.types import Array
from alphaswarm_rl.statistics.bootstrap import RESAMPLES, optimal_block_length
from alphaswarm_rl.statistics.checks import finite, share
from alphaswarm_rl.statistics.measures import aligned


@dataclass(frozen=True, eq=False)
class AdjustedTests:
    """Tests after their number was counted, in the order that they were given in.

    Attributes:
        rejected: Which null hypotheses are rejected: there is something.
        adjusted: The p-value of each, as if it had been the only test.
    """

    rejected: Array
    adjusted: Array


def benjamini_hochberg(p_values: Array, significance: float = 0.05) -> AdjustedTests:
    """Rejects as many as keep the expected share of false rejections at `significance`.

    Raises:
        StatisticsError: A p-value is no probability.
    """
    p_values, order = _sorted(p_values, significance)
    count = len(p_values)
    raw = p_values[order] / (np.arange(1, count + 1) / max(count, 1))
    return _unsorted(np.minimum.accumulate(raw[::-1])[::-1], order, significance)


def holm_bonferroni(p_values: Array, significance: float = 0.05) -> AdjustedTests:
    """Rejects as many as keep the probability of any false rejection at `significance`.

    Raises:
        StatisticsError: A p-value is no probability.
    """
    p_values, order = _sorted(p_values, significance)
    raw = p_values[order] * np.arange(len(p_values), 0, -1)
    return _unsorted(np.maximum.accumulate(raw), order, significance)


@dataclass(frozen=True)
class SuperiorAbility:
    """Whether the best of several strategies beats a benchmark: p-values of the hypothesis that none does.

    Attributes:
        p_value: The consistent one of Hansen.
        lower: The lower bound of it.
        upper: The upper bound, White's reality check.
    """

    p_value: float
    lower: float
    upper: float


def superior_predictive_ability(
    returns: Array, benchmark: Array, *, resamples: int = RESAMPLES, seed: int = 0, block_length: int | None = None
) -> SuperiorAbility:
    """Hansen's test of whether any strategy beats the benchmark (SPA).

    Args:
        returns: The returns of each strategy, (periods, strategies).
        benchmark: The benchmark's returns over the same periods.
        resamples: How many resamples.
        seed: Seed of the resampling.
        block_length: Mean length of blocks; None lets the data choose.

    Raises:
        StatisticsError: Returns are not finite, do not vary beside the benchmark, or periods do not fit.
        MissingExtra: The package `arch` is not installed.
    """
    table, base, block_length = _compared(returns, benchmark, block_length)
    test = require("arch.bootstrap", extra="eval").SPA(
        -base, -table, block_size=block_length, reps=resamples, seed=seed
    )
    test.compute()
    found = {name: float(value) for name, value in test.pvalues.items()}
    return SuperiorAbility(found["consistent"], found["lower"], found["upper"])


def stepwise_superior(
    returns: Array,
    benchmark: Array,
    significance: float = 0.05,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    block_length: int | None = None,
) -> Array:
    """Which strategies beat the benchmark, with that probability of naming a single one that does not (StepM).

    Arguments are those of `superior_predictive_ability`.
    """
    table, base, block_length = _compared(returns, benchmark, block_length)
    share(significance, "significance")
    step = require("arch.bootstrap", extra="eval").StepM(
        -base, -table, size=significance, block_size=block_length, reps=resamples, seed=seed
    )
    step.compute()
    better = np.zeros(table.shape[1], dtype=bool)
    better[list(step.superior_models)] = True
    return better


def _compared(returns: Array, benchmark: Array, block_length: int | None) -> tuple[Array, Array, int]:
    table = finite(returns, "the returns of strategies", dimensions=2)
    base = finite(benchmark, "the benchmark", dimensions=1)
    if table.shape[1] < 1 or len(table) < 2:
        why = f"there are {table.shape[1]} of {len(table)} periods"
        raise StatisticsError("the strategies", why, "Give one strategy and two periods or more.")
    aligned(table[:, 0], base)
    ahead = table - base[:, np.newaxis]
    still = ahead.std(axis=0) <= 1e-12
    if still.any():
        first = int(np.argmax(still))
        why = "it is always as far from the benchmark: there is no error to test by"
        raise StatisticsError(f"strategy {first}", why, "Leave it out.")
    length = math.ceil(optimal_block_length(ahead)) if block_length is None else block_length
    return table, base, length


def _sorted(p_values: Array, significance: float) -> tuple[Array, Array]:
    share(significance, "significance")
    numbers = finite(p_values, "p-values", dimensions=1)
    if ((numbers < 0) | (numbers > 1)).any():
        raise StatisticsError("p-values", "one is below 0 or above 1", "Give probabilities.")
    return numbers, np.argsort(numbers, kind="stable")


def _unsorted(adjusted: Array, order: Array, significance: float) -> AdjustedTests:
    found = np.empty_like(adjusted)
    found[order] = np.minimum(adjusted, 1.0)
    return AdjustedTests(found <= significance, found)

"""Lower bounds of all strategies at once, whatever was tried: the Rademacher anti-serum.

Paleologo (The Elements of Quantitative Investing, chapter 8): random signs are a market without any edge. How well the
best of all strategies does on them, on average, is their Rademacher complexity: it grows with how many and how
different they are, not with how often one of them is repeated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from alphaswarm_rl.core.errors import StatisticsError
from alphaswarm_rl.core.seeding import generator
from alphaswarm_rl.core.types import Array
from alphaswarm_rl.statistics.checks import finite, share

#: What strategies are measured in: returns over their volatility, or correlations of signals with what they predict.
Kind = Literal["sharpe", "information_coefficient"]

DRAWS = 10_000
#: At most so many periods are enumerated rather than drawn: 65,536 rows of signs.
ENUMERATED = 16
#: A deviation further from 1 than this factor is no return over its volatility.
_FACTOR = 10.0
#: Numbers that are drawn at once.
_AT_ONCE = 2**21


@dataclass(frozen=True)
class RademacherComplexity:
    """How well the best of some strategies does on random signs.

    Attributes:
        value: The mean over signs of the best mean.
        error: The standard error of the drawing; 0 where all signs were enumerated.
        bound: What it cannot exceed, by Massart's lemma.
    """

    value: float
    error: float
    bound: float


@dataclass(frozen=True, eq=False)
class AntiSerum:
    """What strategies are worth for certain, all at once.

    Attributes:
        estimates: The mean of each strategy.
        bounds: What each true mean exceeds, all of them with the confidence that was asked for.
        data_snooping: What is taken off for having looked at so many: twice the complexity.
        estimation_error: What is taken off for having so few periods.
        complexity: The complexity itself.
    """

    estimates: Array
    bounds: Array
    data_snooping: float
    estimation_error: float
    complexity: RademacherComplexity


def rademacher_complexity(values: Array, draws: int = DRAWS, seed: int = 0) -> RademacherComplexity:
    """The Rademacher complexity of strategies: enumerated for up to 16 periods, drawn for more.

    Args:
        values: A value of each strategy in each period, (periods, strategies).
        draws: How many rows of signs are drawn.
        seed: Seed of the drawing.

    Raises:
        StatisticsError: A value is not finite, or there is none.
    """
    table = _checked(values)
    periods, strategies = table.shape
    largest = float(np.sqrt((table**2).sum(axis=0)).max())
    bound = largest * math.sqrt(2.0 * math.log(strategies)) / periods
    if strategies == 1:  # the mean over signs of one mean
        return RademacherComplexity(0.0, 0.0, bound)
    if periods <= ENUMERATED:
        best = np.concatenate([(signs @ table).max(axis=1) for signs in _all_signs(periods)]) / periods
        return RademacherComplexity(max(float(best.mean()), 0.0), 0.0, bound)
    if draws < 2:
        raise StatisticsError(f"{draws} draws", "they have no standard error", "Give 2 or more.")
    best = np.concatenate([(signs @ table).max(axis=1) for signs in _drawn_signs(periods, draws, seed)]) / periods
    error = float(best.std(ddof=1)) / math.sqrt(draws)
    return RademacherComplexity(max(float(best.mean()), 0.0), error, bound)


def rademacher_anti_serum(
    values: Array,
    *,
    kind: Kind = "sharpe",
    significance: float = 0.05,
    largest: float = 1.0,
    draws: int = DRAWS,
    seed: int = 0,
) -> AntiSerum:
    """What every strategy's true mean exceeds, all at once, with probability 1 - `significance`.

    Values of neighbouring periods must not be correlated: add such periods up first. Bounds are per period; a year's
    Sharpe ratio is that times the root of its periods. They are very careful: 2,500 days cost 0.23 per day before
    anything is known of the strategies.

    Args:
        values: (periods, strategies): returns over the volatility that was predicted for them, or the correlation of
            each signal with what it predicts.
        kind: Which of these.
        significance: How often one of all bounds may be wrong.
        largest: The largest absolute value that a correlation can have.
        draws: How many rows of signs are drawn, where they are not enumerated.
        seed: Seed of the drawing.

    Raises:
        StatisticsError: A value is not finite, is no return over its volatility, or is a correlation above `largest`.
    """
    table = _checked(values)
    share(significance, "significance")
    if kind == "sharpe":
        _refuse_other_units(table)
    elif float(np.abs(table).max()) > largest:
        why = f"one is {float(np.abs(table).max()):.6g}, and {largest} was said to be the largest"
        raise StatisticsError("the information coefficients", why, "Give correlations, or their largest value.")
    complexity = rademacher_complexity(table, draws, seed)
    periods, strategies = table.shape
    error = estimation_error(periods, strategies, kind=kind, significance=significance, largest=largest)
    estimates = table.mean(axis=0)
    snooping = 2.0 * complexity.value
    return AntiSerum(estimates, estimates - snooping - error, snooping, error, complexity)


def estimation_error(
    periods: int, strategies: int, *, kind: Kind = "sharpe", significance: float = 0.05, largest: float = 1.0
) -> float:
    """What bounds lose to so few periods; arguments are those of `rademacher_anti_serum`."""
    if kind == "information_coefficient":
        return 2.0 * largest * math.sqrt(math.log(2.0 / significance) / periods)
    unbounded = 3.0 * math.sqrt(2.0 * math.log(2.0 / significance) / periods)
    return unbounded + math.sqrt(2.0 * math.log(2.0 * strategies / significance) / periods)


def _checked(values: Array) -> Array:
    table = finite(values, "the values of strategies", dimensions=2)
    if table.size == 0:
        raise StatisticsError("the values of strategies", "there are none", "Give one strategy and period or more.")
    return table


def _refuse_other_units(table: Array) -> None:
    """Refuses raw or yearly returns: the bounds are about values that deviate by about 1."""
    deviations = np.sqrt((table**2).mean(axis=0))
    wrong = (deviations > 0) & ((deviations > _FACTOR) | (deviations < 1.0 / _FACTOR))
    if wrong.any():
        first = int(np.argmax(wrong))
        raise StatisticsError(
            f"strategy {first}",
            f"its values have a size of {deviations[first]:.3g}, and returns over their volatility one of about 1",
            "Divide each return by the volatility per period that was predicted for it.",
        )


def _all_signs(periods: int) -> Iterator[Array]:
    numbers = np.arange(2**periods)
    size = max(1, _AT_ONCE // periods)
    for first in range(0, len(numbers), size):
        bits = (numbers[first : first + size, np.newaxis] >> np.arange(periods)) & 1
        yield 2.0 * bits - 1.0


def _drawn_signs(periods: int, draws: int, seed: int) -> Iterator[Array]:
    rng = generator(seed, "rademacher_complexity")
    size = max(1, _AT_ONCE // periods)
    for first in range(0, draws, size):
        bits = rng.integers(0, 2, size=(min(size, draws - first), periods), dtype=np.int8)
        yield 2.0 * bits - 1.0

"""The probability of backtest overfitting, by combinatorially symmetric cross-validation (CSCV).

Bailey, Borwein, Lopez de Prado and Zhu (2017): the best of many configurations on one half of the data is looked up on
the other half, for every way to choose half of the blocks. Where it does no better there than the median, choosing by
a backtest was luck.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations, islice
from typing import TypeAlias

import numpy as np

from alphaswarm_rl.core.errors import StatisticsError
from alphaswarm_rl.core.types import Array
from alphaswarm_rl.statistics.checks import finite
from alphaswarm_rl.statistics.performance import NEGLIGIBLE

#: What configurations are scored by on some of the periods: (periods, configurations) in, one score each out.
Score: TypeAlias = Callable[[Array], Array]

BLOCKS = 16
#: Variance that is this small beside the mean square is rounding.
_ROUNDING = 1e-12
#: Numbers that are scored at once.
_AT_ONCE = 2**20


@dataclass(frozen=True, eq=False)
class BacktestOverfitting:
    """What choosing the best configuration of a backtest is worth.

    Attributes:
        probability: How often the best of one half is no better than the median of the other half.
        logits: Of its rank on the other half, one for each way to choose: 0 is the median, below 0 is worse.
        chosen: Which configuration was best, likewise.
        in_sample: Its score where it was best.
        out_of_sample: Its score on the other half.
        slope: Of the line of least squares through these scores, out of sample over in sample; NaN where scores in
            sample do not vary.
        intercept: Where that line begins; NaN likewise.
        probability_of_loss: How often its score on the other half is below 0.
    """

    probability: float
    logits: Array
    chosen: Array
    in_sample: Array
    out_of_sample: Array
    slope: float
    intercept: float
    probability_of_loss: float


def probability_of_backtest_overfitting(
    returns: Array, blocks: int = BLOCKS, score: Score | None = None
) -> BacktestOverfitting:
    """How likely choosing the best of these configurations by their returns is overfitting.

    Args:
        returns: The returns of each configuration over the same periods, (periods, configurations).
        blocks: An even number of blocks of equal length that halves are made of. The first periods are left out where
            they do not fit.
        score: What configurations are compared by; None: the Sharpe ratio, 0 where returns do not vary.

    Raises:
        StatisticsError: A return is not finite, or there are too few configurations, blocks or periods.
    """
    table = finite(returns, "the returns of configurations", dimensions=2)
    periods, configurations = table.shape
    if configurations < 2:
        why = f"there are {configurations}, and nothing to choose from"
        raise StatisticsError("the configurations", why, "Give the returns of two or more.")
    if blocks < 2 or blocks % 2:
        raise StatisticsError(f"{blocks} blocks", "two halves are made of them", "Give an even number.")
    if periods // blocks * (blocks // 2) < 2:
        why = "a block has no period" if periods < blocks else "a half has one period, and no deviation"
        raise StatisticsError(f"{blocks} blocks of {periods} periods", why, "Give fewer blocks, or more periods.")
    table = table[periods % blocks :]
    scores = _sharpe_of_blocks(table, blocks) if score is None else _score_of_blocks(table, blocks, score)
    forward, backward = [], []
    for ours, theirs in _halves(blocks, max(1, _AT_ONCE // configurations)):
        first, second = scores(ours), scores(theirs)
        forward.append(_looked_up(first, second))
        backward.append(_looked_up(second, first))
    # The other half of the first choice is the last choice, and so on.
    backward = [each[:, ::-1] for each in reversed(backward)]
    chosen, inside, outside, logits = np.concatenate([*forward, *backward], axis=1)
    slope, intercept = _line(inside, outside)
    return BacktestOverfitting(
        probability=float((logits <= 0).mean()),
        logits=logits,
        chosen=chosen.astype(np.int64),
        in_sample=inside,
        out_of_sample=outside,
        slope=slope,
        intercept=intercept,
        probability_of_loss=float((outside < 0).mean()),
    )


def _halves(blocks: int, at_once: int) -> Iterator[tuple[Array, Array]]:
    """The blocks of each half and of the other, (choices, blocks / 2), so many choices at once.

    Only choices with the first block: each of the others is the other half of one of them.
    """
    rest = combinations(range(1, blocks), blocks // 2 - 1)
    while some := list(islice(rest, at_once)):
        ours = np.zeros((len(some), blocks), dtype=bool)
        ours[:, 0] = True
        np.put_along_axis(ours, np.array(some, dtype=np.int64).reshape(len(some), -1), True, axis=1)
        yield tuple(np.nonzero(half)[1].reshape(len(some), -1) for half in (ours, ~ours))  # type: ignore[misc]


def _sharpe_of_blocks(table: Array, blocks: int) -> Callable[[Array], Array]:
    """The Sharpe ratio per period over some of the blocks, out of the sums of each block."""
    means = table.mean(axis=0)
    parts = (table - means).reshape(blocks, -1, table.shape[1])
    sums, squares = parts.sum(axis=1), (parts**2).sum(axis=1)
    periods = parts.shape[1] * (blocks // 2)

    def scores(chosen: Array) -> Array:
        # Added one after the other: the same numbers wherever a configuration stands among the others.
        total, square = sums[chosen[:, 0]], squares[chosen[:, 0]]
        for block in chosen.T[1:]:
            total += sums[block]
            square += squares[block]
        total /= periods
        square /= periods
        variance = square - total**2
        still = variance <= np.maximum(_ROUNDING * square, NEGLIGIBLE**2)
        deviation = np.sqrt(np.where(still, 1.0, variance) * (periods / (periods - 1)))
        return np.where(still, 0.0, (means + total) / deviation)

    return scores


def _score_of_blocks(table: Array, blocks: int, score: Score) -> Callable[[Array], Array]:
    parts = table.reshape(blocks, -1, table.shape[1])

    def scores(chosen: Array) -> Array:
        found = np.stack([score(parts[some].reshape(-1, table.shape[1])) for some in chosen])
        if not np.isfinite(found).all():
            why = "it is not finite for some configuration and half"
            raise StatisticsError("the score", why, "Give a number where it is undefined, such as 0.")
        return found

    return scores


def _looked_up(ours: Array, theirs: Array) -> Array:
    """Which is best by ours, its score there and by theirs, and the logit of its rank by theirs; (4, choices)."""
    best = ours.argmax(axis=1)
    rows = np.arange(len(best))
    inside, outside = ours[rows, best], theirs[rows, best]
    worse = (theirs < outside[:, np.newaxis]).sum(axis=1)
    alike = (theirs == outside[:, np.newaxis]).sum(axis=1)
    rank = (worse + (alike + 1) / 2) / (ours.shape[1] + 1)
    return np.stack([best, inside, outside, np.log(rank / (1.0 - rank))])


def _line(x: Array, y: Array) -> tuple[float, float]:
    """Slope and intercept of the line of least squares."""
    deviations = x - x.mean()
    spread = float(deviations @ deviations)
    if spread <= len(x) * NEGLIGIBLE**2:
        return math.nan, math.nan
    slope = float(deviations @ (y - y.mean())) / spread
    return slope, float(y.mean()) - slope * float(x.mean())

"""Drawdowns one by one: from which peak, how deep, and until when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

import numpy as np

from alphaswarm_rl.core.errors import StatisticsError
from alphaswarm_rl.core.types import Array

Moment = TypeVar("Moment")


@dataclass(frozen=True)
class Drawdown(Generic[Moment]):
    """A fall below an earlier value, until that value is reached again.

    Attributes:
        depth: The deepest fall, relative to the peak: below 0.
        peak: When the value was highest before it, the last time.
        trough: When it was deepest, the first time.
        recovery: When the peak was reached again; None where it was not.
        periods: Periods from the peak to the recovery, or to the end.
    """

    depth: float
    peak: Moment
    trough: Moment
    recovery: Moment | None
    periods: int


def drawdowns(
    values: Array, moments: Sequence[Moment] | None = None, most: int | None = None
) -> list[Drawdown[Moment]]:
    """The drawdowns of a curve, the deepest first; of equal ones the earlier.

    Args:
        values: The account's values, the initial one first; all finite and the first above 0.
        moments: When each value was; None numbers them from 0.
        most: At most so many; None: all.

    Raises:
        StatisticsError: A value is not finite, there is none, or there are not as many moments.
    """
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 1 or len(values) == 0 or not np.isfinite(values).all() or values[0] <= 0:
        raise StatisticsError(
            "the curve of a drawdown",
            "it is not a row of finite numbers that begins above 0",
            "Give the account's values, the initial one first.",
        )
    when = cast("Sequence[Moment]", range(len(values))) if moments is None else moments
    if len(when) != len(values):
        raise StatisticsError(
            "the moments of a curve", f"there are {len(when)} of {len(values)} values", "Give one for each value."
        )
    depths = values / np.maximum.accumulate(values) - 1.0
    below = np.concatenate([[False], depths < 0, [False]])
    changes = np.flatnonzero(below[1:] != below[:-1])
    runs = zip(changes[::2].tolist(), changes[1::2].tolist(), strict=True)
    found = [_drawdown(depths, when, first, end) for first, end in runs]
    return sorted(found, key=lambda drawdown: drawdown.depth)[:most]


def _drawdown(depths: Array, when: Sequence[Moment], first: int, end: int) -> Drawdown[Moment]:
    """The one from value `first` up to, and without, `end`."""
    trough = first + int(np.argmin(depths[first:end]))
    recovered = end < len(depths)
    return Drawdown(
        depth=float(depths[trough]),
        peak=when[first - 1],
        trough=when[trough],
        recovery=when[end] if recovered else None,
        periods=(end if recovered else end - 1) - (first - 1),
    )

"""When a stage chooses anew: with every bar, or with the first bar of a period of the calendar."""

from __future__ import annotations

from typing import Literal

import numpy as np

from alphaswarm_rl.core.types import Array
from alphaswarm_rl.core.view import Panel

Rebalance = Literal["bar", "day", "week", "month", "quarter"]


def first_bars(panel: Panel, period: Rebalance) -> Array:
    """The bars with which a period begins in the calendar of UTC, (T,) bool; weeks begin on Mondays."""
    if period == "bar":
        return np.ones(panel.num_bars, np.bool_)
    number = _numbers(panel.timestamps, period)
    begins = np.ones(panel.num_bars, np.bool_)
    begins[1:] = number[1:] != number[:-1]
    return begins


def dates(panel: Panel) -> Array:
    """The date of each bar's label as days since 1970, (T,) int64."""
    return _numbers(panel.timestamps, "day")


def _numbers(times: Array, period: Rebalance) -> Array:
    """The period that each moment is in, counted since 1970."""
    if period in ("day", "week"):
        days: Array = times.astype("datetime64[D]").astype(np.int64)
        # The first of January 1970 was a Thursday.
        return days if period == "day" else (days + 3) // 7
    months: Array = times.astype("datetime64[M]").astype(np.int64)
    return months if period == "month" else months // 3

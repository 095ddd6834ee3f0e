"""Coarser bars, made from a panel's own bars by the clock."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.core.types import Array
from alphaswarm_rl.core.view import Panel

#: What a timeframe looks like, such as 5m, 1h, 1d or 1w.
TIMEFRAME = r"^[1-9]\d*[smhdw]$"

_SECOND = 1_000_000_000
_UNITS = {"s": _SECOND, "m": 60 * _SECOND, "h": 3600 * _SECOND, "d": 86_400 * _SECOND, "w": 7 * 86_400 * _SECOND}
#: Weeks begin on Monday, and time counts from a Thursday.
_MONDAY = 4 * _UNITS["d"]


@dataclass(frozen=True)
class CoarseBars:
    """B coarser bars of A assets.

    Attributes:
        columns: close, and open, high, low, volume where the panel has them, (B, A) float64; anything where an asset
            has no such bar.
        real: Where an asset has a tradable bar in it and the panel has it from its beginning, (B, A) bool.
        newest: Index of the newest one that is over at the close of each bar of the panel, (T,) int64; -1: none is.
    """

    columns: dict[str, Array]
    real: Array
    newest: Array


def coarse_bars(panel: Panel, timeframe: str) -> CoarseBars:
    """The panel's bars in a coarser timeframe.

    Boundaries are those of the clock in UTC, weeks begin on Monday. A coarser bar is there where the panel has a bar in
    it, is made of the asset's tradable bars, and is over when the clock says so. The first one is real only if the
    panel begins where it does, so that a value does not depend on where the panel was cut.

    Args:
        panel: The bars.
        timeframe: A whole multiple of the panel's bar, such as 5m, 1h, 1d or 1w.
    """
    size = _size(panel, timeframe)
    stamps = panel.timestamps.astype(np.int64)
    offset = _MONDAY if timeframe.endswith("w") else 0
    # A bar that is labelled by its end belongs to the time before the label.
    inside = stamps - 1 if panel.stamp == "close" else stamps
    period = (inside - offset) // size
    begins = stamps[0] - (round(panel.bar_seconds * _SECOND) if panel.stamp == "close" else 0)
    whole = begins <= period[0] * size + offset
    first = np.flatnonzero(np.append(True, period[1:] != period[:-1]))
    ends = (period[first] + 1) * size + offset
    newest = np.searchsorted(ends, panel.known_at.astype(np.int64), side="right") - 1
    columns, real = _gathered(panel, first)
    real[0] &= whole
    return CoarseBars(columns, real, newest)


def _gathered(panel: Panel, first: Array) -> tuple[dict[str, Array], Array]:
    present = panel.tradable
    bars = np.arange(panel.num_bars)[:, None]
    earliest = np.minimum.reduceat(np.where(present, bars, panel.num_bars), first, axis=0)
    latest = np.maximum.reduceat(np.where(present, bars, -1), first, axis=0)
    columns = {"close": np.take_along_axis(panel.close, np.maximum(latest, 0), axis=0)}
    if panel.open is not None:
        columns["open"] = np.take_along_axis(panel.open, np.minimum(earliest, panel.num_bars - 1), axis=0)
    reductions = (("high", np.maximum, -np.inf), ("low", np.minimum, np.inf), ("volume", np.add, 0.0))
    for name, reduction, elsewhere in reductions:
        if (values := getattr(panel, name)) is not None:
            columns[name] = reduction.reduceat(np.where(present, values, elsewhere), first, axis=0)
    return columns, latest >= 0


def _size(panel: Panel, timeframe: str) -> int:
    if not re.fullmatch(TIMEFRAME, timeframe):
        raise DataError(f"timeframe {timeframe!r}", "it is not a number with s, m, h, d or w", "Write it as 5m or 1h.")
    size = int(timeframe[:-1]) * _UNITS[timeframe[-1]]
    if size % round(panel.bar_seconds * _SECOND):
        raise DataError(
            f"timeframe {timeframe!r}",
            f"it is not a multiple of the panel's bar of {panel.bar_seconds:g} seconds",
            "Choose one that is, or give finer bars.",
        )
    return size

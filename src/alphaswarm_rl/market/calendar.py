"""The calendar of bars: how long a bar is, how many make a year, when one is known, and what was known then."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from alphaswarm_rl.arrays.moments import shown
from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.core.types import Array
from alphaswarm_rl.core.view import Panel

_DAY = 86_400.0
_DAYS_PER_YEAR = 365.25
_TRADING_DAYS = 252.0
_WEEK = 7
_WEEKEND = frozenset({5, 6})
#: February, less the days that a last trading day may come early.
_SHORTEST_MONTH = 25


def bar_seconds(timestamps: Array) -> float:
    """The usual length of a bar in seconds: the median distance between two timestamps."""
    return float(np.median(np.diff(timestamps).astype(np.int64))) / 1e9


def periods_per_year(timestamps: Array) -> float:
    """How many bars a year has, judged by the timestamps alone.

    - Bars more than a day and a half apart: 365.25 days over their distance, rounded (weekly 52). Where each lies in
      the next month, quarter or year it is 12, 4 or 1; where some lie in the next weekday they are daily ones around
      weekends and holidays.
    - Daily bars (12 to 36 hours apart): 252; 313 where six weekdays trade, 365 where all seven do.
    - Shorter bars: those days times the median number of bars in a day, the first and the last day left out because
      they may be cut. Where no whole day is there and bars go on over midnight, as many as a day has room for.

    A weekday counts as traded when it has at least half as many bars in a day as the median day, so that the Sunday
    evening of currencies does not make a week of six days. In a panel shorter than a week a traded Saturday or Sunday
    counts for the other one, unless that one is there without bars.
    """
    spacing = bar_seconds(timestamps)
    days, counts = np.unique(timestamps.astype("datetime64[D]"), return_counts=True)
    if spacing > 1.5 * _DAY and not _around_weekends(days):
        months = _months_apart(timestamps)
        return max(1.0, float(round(_DAYS_PER_YEAR * _DAY / spacing))) if months is None else 12.0 / months
    per_day = _bars_in_a_day(timestamps, counts, spacing)
    # 1970-01-01 was a Thursday, the third weekday counted from Monday.
    weekdays = (days.astype(np.int64) + 3) % 7
    traded = {int(weekday) for weekday, count in zip(weekdays, counts, strict=True) if count >= 0.5 * per_day}
    span = int((days[-1] - days[0]).astype(np.int64)) + 1
    if span < _WEEK:
        passed = {int(weekdays[0] + day) % 7 for day in range(span)}
        year = _year_of(len(_WEEKEND & traded), len(_WEEKEND & passed))
    else:
        year = {7: 365.0, 6: 313.0}.get(len(traded), _TRADING_DAYS)
    return year if spacing > 0.5 * _DAY else year * per_day


def _around_weekends(days: Array) -> bool:
    """Whether bars far apart are daily ones: in a few days one holiday or weekend is half of what is seen."""
    weekend = (days.astype(np.int64) + 3) % 7 >= 5
    if weekend.any() or len(days) < 2:
        return False
    apart = np.busday_count(days[:-1], days[1:])
    return bool(np.median(apart) <= 1 or (len(days) <= _WEEK and apart.min() == 1))


def _months_apart(timestamps: Array) -> int | None:
    """Months from bar to bar, where they are always as many and a part of a year; None otherwise."""
    apart = np.diff(timestamps.astype("datetime64[M]").astype(np.int64))
    shortest = np.diff(timestamps).min() / np.timedelta64(1, "D")
    same = apart[0] > 0 and (apart == apart[0]).all() and shortest >= _SHORTEST_MONTH
    return int(apart[0]) if same and 12 % apart[0] == 0 else None


def _bars_in_a_day(timestamps: Array, counts: Array, spacing: float) -> float:
    if len(counts) > 2:
        return float(np.median(counts[1:-1]))
    moments = timestamps.astype(np.int64)
    over_midnight = np.diff(moments // round(_DAY * 1e9)) > 0
    goes_on = over_midnight & (np.diff(moments) <= spacing * 1e9)
    return float(round(_DAY / spacing)) if goes_on.any() and spacing <= 0.5 * _DAY else float(np.median(counts))


def _year_of(traded: int, passed: int) -> float:
    """Trading days in a year, by how many days of a weekend passed and how many of them were traded."""
    return _TRADING_DAYS if traded == 0 else 365.0 if traded == passed else 313.0


def known_at(timestamps: Array, seconds: float, stamp: str) -> Array:
    """When everything about each bar is known: its close.

    Args:
        timestamps: Labels of the bars.
        seconds: Length of a bar.
        stamp: `open` where a label is the bar's start, `close` where it is its end.

    Returns:
        Moments of the same shape. A bar is over when the next one starts, however long bars usually are.
    """
    if stamp == "close":
        return timestamps
    ends = timestamps + np.timedelta64(round(seconds * 1e9), "ns")
    ends[:-1] = np.minimum(ends[:-1], timestamps[1:])
    return ends


def join_as_of(panel: Panel, asset_ids: Sequence[str] | Array, available_from: ArrayLike, values: ArrayLike) -> Array:
    """The newest value that was available at the close of each bar.

    A row counts from the first bar with `known_at >= available_from`, until a later row of its asset replaces it. Rows
    may come in any order; those of other assets are left aside.

    Args:
        panel: The bars.
        asset_ids: Asset of each row.
        available_from: The moment from which it can be known, UTC.
        values: Its value; NaN is no value and replaces nothing.

    Returns:
        (T, A) float64, NaN before the first value of an asset.
    """
    ids = np.asarray(asset_ids, dtype=object)
    when = np.asarray(available_from, dtype="datetime64[ns]")
    numbers = np.asarray(values, dtype=np.float64)
    if not ids.shape == when.shape == numbers.shape or ids.ndim != 1:
        raise DataError(
            "the joined rows",
            f"they have {ids.shape} assets, {when.shape} moments and {numbers.shape} values",
            "Give one of each per row.",
        )
    out = np.full(panel.close.shape, np.nan)
    for column, asset in enumerate(panel.assets):
        rows = np.flatnonzero((ids == asset) & ~np.isnan(numbers))
        rows = rows[np.argsort(when[rows], kind="stable")]
        moments = when[rows]
        _refuse_rivals(rows, moments, asset)
        newest = np.searchsorted(moments, panel.known_at, side="right") - 1
        out[:, column] = np.where(newest >= 0, np.append(numbers[rows], np.nan)[newest], np.nan)
    return out


def _refuse_rivals(rows: Array, moments: Array, asset: str) -> None:
    """Nobody can tell which of two rows of one moment is right."""
    twice = np.flatnonzero(moments[1:] == moments[:-1])
    if len(twice):
        first, second = rows[twice[0]], rows[twice[0] + 1]
        raise DataError(
            f"rows {first} and {second} (asset {asset!r}, {shown(moments[twice[0]])})",
            "two values became available at one moment",
            "Keep one of them.",
        )

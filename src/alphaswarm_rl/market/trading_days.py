"""Which days and moments a series of bars trades on, judged by its timestamps, and which of them are missing.

Where no bar lies on a holiday of the New York exchange, its calendar is taken and every missing day is known. Elsewhere
holidays are unknown: only what no holiday explains is said to be missing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from alphaswarm_rl.arrays.moments import shown
from alphaswarm_rl.core.types import Array
from alphaswarm_rl.market.calendar import bar_seconds
from alphaswarm_rl.market.findings import Finding, finding

_DAY_SECONDS = 86_400.0
_DAY = np.timedelta64(1, "D")
#: Days on which the New York exchange was closed beside its holidays, since 1985.
_CLOSED_SPECIALLY = """
    1985-09-27 1994-04-27 2001-09-11 2001-09-12 2001-09-13 2001-09-14 2004-06-11 2007-01-02 2012-10-29 2012-10-30
    2018-12-05 2025-01-09
"""
#: Holidays of a year that a series must have passed over before it counts as that exchange's.
_FEWEST_HOLIDAYS = 6
#: Trading days in a row that holidays take away at most, anywhere.
_LONGEST_HOLIDAY = 10
#: Share of a year's weekdays that trade at least, anywhere.
_FEWEST_TRADED = 0.9
#: A weekday trades if it has at least this share of the bars of the usual one.
_TRADES = 0.5
#: A moment of the day is usual when this share of the days has it.
_USUAL_MOMENT = 0.9
#: Share of a series' bars that may be missing inside of days before it is said.
_BORNE_MISSING = 0.005
_NAMES = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


@dataclass(frozen=True)
class TradingDays:
    """When a series trades.

    Attributes:
        bar: Usual length of a bar, in words.
        days: Which days trade, in words.
        exchange: `New York` where its holidays are kept; None where nobody can tell.
        findings: What is missing, and what is there too much.
    """

    bar: str
    days: str
    exchange: str | None
    findings: tuple[Finding, ...]


def trading_days(timestamps: Array) -> TradingDays:
    """When these bars trade, of increasing moments, at least two."""
    spacing = bar_seconds(timestamps)
    if spacing > 1.5 * _DAY_SECONDS:
        return TradingDays(_length(spacing), "one bar at a time", None, _coarse_gaps(timestamps, spacing))
    days, counts = np.unique(timestamps.astype("datetime64[D]"), return_counts=True)
    weekdays = _weekday(days)
    bars_of = np.array([counts[weekdays == weekday].sum() for weekday in range(7)])
    usual = np.sort(bars_of)[-3] if len(days) > 14 else bars_of.max()
    trades = bars_of >= max(1.0, _TRADES * usual)
    traded = days[trades[weekdays]]
    findings = []
    if spacing > 0.5 * _DAY_SECONDS and not trades[weekdays].all():
        odd = days[~trades[weekdays]]
        text = f"on {_NAMES[int(_weekday(odd[:1])[0])]}, and mostly {_week(trades)} trades"
        findings.append(finding("odd_day", text, place=str(odd[0]), count=len(odd)))
    exchange = None
    if len(traded) > 1:
        expected = np.arange(traded[0], traded[-1] + _DAY)
        expected = expected[trades[_weekday(expected)]]
        holidays = new_york_holidays(int(str(traded[0])[:4]), int(str(traded[-1])[:4]))
        passed = np.isin(holidays, expected)
        if trades.tolist() == [True] * 5 + [False] * 2 and passed.sum() >= _FEWEST_HOLIDAYS:
            exchange = None if np.isin(holidays, traded).any() else "New York"
        if exchange is not None:
            special = np.array(_CLOSED_SPECIALLY.split(), "datetime64[D]")
            expected = expected[~np.isin(expected, holidays) & ~np.isin(expected, special)]
        gap = _day_gap(traded, expected, known=exchange is not None or bool(trades.all()))
        findings += [] if gap is None else [gap]
    if spacing <= 0.5 * _DAY_SECONDS:
        findings += _session_gap(timestamps)
    return TradingDays(_length(spacing), _week(trades), exchange, tuple(findings))


def new_york_holidays(first: int, last: int) -> Array:
    """Holidays of the New York exchange that fall on weekdays, of these years, (N,) datetime64[D]."""
    found = []
    for year in range(first, last + 1):
        found += [
            _nth(year, 2, 0, 3),
            _good_friday(year),
            _last_monday_of_may(year),
            _observed(year, 7, 4),
            _nth(year, 9, 0, 1),
            _nth(year, 11, 3, 4),
            _observed(year, 12, 25),
        ]
        # A New Year's Day on a Saturday is not made up for: the year before keeps its last day.
        found += [] if _weekday(_date(year, 1, 1)) == 5 else [_observed(year, 1, 1)]
        found += [_nth(year, 1, 0, 3)] if year >= 1998 else []
        found += [_observed(year, 6, 19)] if year >= 2022 else []
    return np.array(found, "datetime64[D]")


def _date(year: int, month: int, day: int) -> np.datetime64:
    return np.datetime64(f"{year:04}-{month:02}-{day:02}", "D")


def _weekday(days: Array | np.datetime64) -> Array:
    # 1970-01-01 was a Thursday, the third weekday counted from Monday.
    return np.asarray((np.asarray(days, "datetime64[D]").astype(np.int64) + 3) % 7)


def _nth(year: int, month: int, weekday: int, count: int) -> np.datetime64:
    first = _date(year, month, 1)
    return first + np.timedelta64(int((weekday - _weekday(first)) % 7) + 7 * (count - 1), "D")


def _last_monday_of_may(year: int) -> np.datetime64:
    return _nth(year, 6, 0, 1) - np.timedelta64(7, "D")


def _observed(year: int, month: int, day: int) -> np.datetime64:
    date = _date(year, month, day)
    return date + np.timedelta64({5: -1, 6: 1}.get(int(_weekday(date)), 0), "D")


def _good_friday(year: int) -> np.datetime64:
    """The Friday before Easter, by the anonymous Gregorian rule."""
    golden, century, rest = year % 19, year // 100, year % 100
    epact = (19 * golden + century - century // 4 - (century - (century + 8) // 25 + 1) // 3 + 15) % 30
    weekday = (32 + 2 * (century % 4) + 2 * (rest // 4) - epact - rest % 4) % 7
    moon = (golden + 11 * epact + 22 * weekday) // 451
    month, day = divmod(epact + weekday - 7 * moon + 114, 31)
    return _date(year, month, day + 1) - np.timedelta64(2, "D")


def _day_gap(traded: Array, expected: Array, *, known: bool) -> Finding | None:
    """Expected days without a bar, where holidays do not explain them.

    Args:
        traded: Days with bars.
        expected: Days that should have some.
        known: Whether the expected days are free of holidays.
    """
    absent = ~np.isin(expected, traded)
    if not absent.any():
        return None
    runs = run_lengths(absent)
    longest = int(runs.max())
    first = expected[int(runs.argmax()) - longest + 1]
    if known:
        return finding(
            "calendar_gap",
            f"the longest gap has {longest} in a row",
            place=str(expected[absent.argmax()] if longest == 1 else first),
            count=int(absent.sum()),
        )
    long_runs = runs[runs > _LONGEST_HOLIDAY]
    if len(long_runs):
        ends = np.flatnonzero(runs > _LONGEST_HOLIDAY)
        last = ends[np.append(np.diff(ends) > 1, True)]
        text = f"the longest gap has {longest} in a row"
        return finding("calendar_gap", text, place=str(first), count=int(runs[last].sum()))
    years = expected.astype("datetime64[Y]").astype(int)
    for year in np.unique(years):
        inside = years == year
        if inside.sum() > 200 and absent[inside].mean() > 1 - _FEWEST_TRADED:
            text = f"{absent[inside].sum()} of the {inside.sum()} trading days of {1970 + year}"
            return finding("calendar_gap", text, place=str(expected[absent][0]), count=int(absent[inside].sum()))
    return None


def _coarse_gaps(timestamps: Array, spacing: float) -> tuple[Finding, ...]:
    apart = np.diff(timestamps).astype(np.int64) / 1e9
    wide = np.flatnonzero(apart > 1.8 * spacing)
    if not len(wide):
        return ()
    missing = np.rint(apart[wide] / spacing).astype(int) - 1
    place = shown(timestamps[wide[missing.argmax()]])
    return (finding("calendar_gap", "bars in a row are missing", place=place, count=int(missing.sum())),)


def _session_gap(timestamps: Array) -> list[Finding]:
    """Bars that are missing between the first and the last bar of a day, at moments that other days have."""
    days, day_of = np.unique(timestamps.astype("datetime64[D]"), return_inverse=True)
    moments, slot_of = np.unique(timestamps - timestamps.astype("datetime64[D]"), return_inverse=True)
    if len(days) * len(moments) > 1 << 28 or len(days) < 5:
        return []
    traded = np.zeros((len(days), len(moments)), bool)
    traded[day_of, slot_of] = True
    since, until = np.logical_or.accumulate(traded, axis=1), np.logical_or.accumulate(traded[:, ::-1], axis=1)[:, ::-1]
    inside = since & until
    share = traded.sum(axis=0) / np.maximum(inside.sum(axis=0), 1)
    usual = (share >= _USUAL_MOMENT) & (inside.sum(axis=0) >= len(days) / 2)
    missing = inside & ~traded & usual
    count = int(missing.sum())
    if count <= max(5.0, _BORNE_MISSING * len(timestamps)):
        return []
    worst = int(missing.sum(axis=1).argmax())
    text = f"{int(missing[worst].sum())} of them on that day"
    return [finding("session_gap", text, place=str(days[worst]), count=count)]


def run_lengths(flags: Array) -> Array:
    """How many flags in a row end at each place along the first axis: 0 where there is none."""
    places = np.arange(1, len(flags) + 1).reshape(-1, *[1] * (flags.ndim - 1))
    lengths: Array = places - np.maximum.accumulate(np.where(flags, 0, places), axis=0)
    return lengths


def _week(trades: Array) -> str:
    traded = [name for name, trade in zip(_NAMES, trades, strict=True) if trade]
    if len(traded) == 7:
        return "all seven days"
    return "Monday to Friday" if traded == list(_NAMES[:5]) else ", ".join(traded)


def _length(seconds: float) -> str:
    for name, size in (("day", _DAY_SECONDS), ("hour", 3600.0), ("minute", 60.0), ("second", 1.0)):
        if seconds >= size * 0.999:
            number = f"{seconds / size:.3g}"
            return f"{number} {name}{'' if number == '1' else 's'}"
    return f"{seconds:g} seconds"

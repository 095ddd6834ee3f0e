"""What there is of bars and what is wrong with them, as plain data: whoever shows it needs no array."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from alphaswarm_rl.core.types import Array
from alphaswarm_rl.market.bar_findings import BarCheck, Bars, check_bars_of
from alphaswarm_rl.market.calendar import periods_per_year
from alphaswarm_rl.market.findings import Finding

#: Columns of a picture: how finely time is cut.
_SLICES = 160


@dataclass(frozen=True)
class AssetCoverage:
    """What there is of one asset.

    Attributes:
        asset: Its name.
        bars: How many bars.
        first: Moment of the first.
        last: Moment of the last.
        listed_late: Whether others have bars before it.
        ends_early: Whether others have bars after it.
        missing: Bars in between that others have.
        longest_gap: The most of those in a row.
        unchanged: The most closes in a row that repeat the one before.
        zero_volume: Bars without volume; null where there is no volume at all.
        largest_move: The largest change of a close in one bar, as a return.
        largest_at: When that was.
    """

    asset: str
    bars: int
    first: str | None
    last: str | None
    listed_late: bool
    ends_early: bool
    missing: int
    longest_gap: int
    unchanged: int
    zero_volume: int | None
    largest_move: float
    largest_at: str | None


@dataclass(frozen=True)
class DataSummary:
    """What there is of bars and what is wrong with them.

    Attributes:
        columns: Columns by what they are: the table's own names, or the meaning again where there is no table.
        assets: How many assets.
        bars: How many moments.
        rows: How many bars of all assets together.
        start: The first moment; null where no bar could be read.
        end: The last one.
        bar: Usual length of a bar, in words.
        days: Which days trade, in words.
        exchange: The exchange whose holidays are kept, where they are known.
        periods_per_year: Bars in a year, as they are counted unless the spec says it.
        adjusted: Whether prices are said to contain dividends and splits; null where no panel could be made.
        fingerprint: SHA-256 of the bars; null where no panel could be made.
        errors: How many mistakes make the bars unusable.
        warnings: How often something looks wrong.
        findings: Each of those, errors first.
    """

    columns: Mapping[str, str]
    assets: int = 0
    bars: int = 0
    rows: int = 0
    start: str | None = None
    end: str | None = None
    bar: str | None = None
    days: str | None = None
    exchange: str | None = None
    periods_per_year: float | None = None
    adjusted: bool | None = None
    fingerprint: str | None = None
    errors: int = 0
    warnings: int = 0
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class DataReport:
    """What there is of bars, in all and of each asset.

    Attributes:
        summary: What there is and what is wrong with it.
        coverage: What there is of each asset.
        timeline: Of each asset the share of the moments of each slice of time that it has a bar at.
    """

    summary: DataSummary
    coverage: tuple[AssetCoverage, ...]
    timeline: tuple[tuple[float, ...], ...]


def report_of(
    bars: Bars | None,
    errors: tuple[Finding, ...],
    *,
    columns: Mapping[str, str],
    adjusted: bool | None = None,
    fingerprint: str | None = None,
) -> DataReport:
    """The report of bars.

    Args:
        bars: The bars; None: not one could be read.
        errors: What was wrong before they became bars.
        columns: Columns by what they are.
        adjusted: Whether prices contain dividends and splits.
        fingerprint: The panel's.
    """
    count = sum(found.count for found in errors)
    if bars is None:
        summary = DataSummary(columns, errors=count, findings=errors)
        return DataReport(summary, (), ())
    checked = check_bars_of(bars)
    summary = DataSummary(
        columns=columns,
        assets=len(bars.assets),
        bars=len(bars.timestamps),
        rows=int(bars.present.sum()),
        start=bars.day(0),
        end=bars.day(-1),
        bar=checked.days.bar,
        days=checked.days.days,
        exchange=checked.days.exchange,
        periods_per_year=periods_per_year(bars.timestamps),
        adjusted=adjusted,
        fingerprint=fingerprint,
        errors=count,
        warnings=sum(found.count for found in checked.findings),
        findings=(*errors, *checked.findings),
    )
    return DataReport(summary, _rows(bars, checked), _timeline(bars))


def _rows(bars: Bars, checked: BarCheck) -> tuple[AssetCoverage, ...]:
    found, some = checked.coverage, checked.coverage.bars > 0
    return tuple(
        AssetCoverage(
            asset=name,
            bars=int(found.bars[asset]),
            first=bars.day(found.first[asset]) if some[asset] else None,
            last=bars.day(found.last[asset]) if some[asset] else None,
            listed_late=bool(some[asset] and found.first[asset] > 0),
            ends_early=bool(some[asset] and found.last[asset] < len(bars.timestamps) - 1),
            missing=int(found.missing[asset]),
            longest_gap=int(found.longest_gap[asset]),
            unchanged=int(found.unchanged[asset]),
            zero_volume=None if bars.volume is None else int(found.zero_volume[asset]),
            largest_move=float(found.largest_move[asset]),
            largest_at=bars.day(found.largest_at[asset]) if some[asset] else None,
        )
        for asset, name in enumerate(bars.assets)
    )


def _timeline(bars: Bars) -> tuple[tuple[float, ...], ...]:
    """Shares by slices of equal numbers of moments, rounded: they are drawn."""
    length = len(bars.timestamps)
    edges: Array = np.unique(np.linspace(0, length, min(_SLICES, length) + 1).astype(int))
    sums = np.add.reduceat(bars.present, edges[:-1], axis=0, dtype=np.int64)
    shares = np.round(sums / np.diff(edges)[:, None], 3).T
    return tuple(tuple(row) for row in shares.tolist())

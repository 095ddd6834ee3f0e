"""A picture of what there is of bars: one strip for each asset over time, and marks where something looks wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from alphaswarm_rl.core.control_characters import escaped
from alphaswarm_rl.market.data_report import DataReport, DataSummary
from alphaswarm_rl.market.findings import DEFECTS, Finding

_WIDTH, _LEFT, _RIGHT, _TOP = 960, 110, 44, 78
_STRIP, _GAP, _TALLEST = 14.0, 4.0, 720.0
#: Strips below that height have no name beside them.
_NAMED = 9.0
_TICKS = 6
_INK, _PALE, _PAPER, _FULL, _LACK = "#1f2933", "#6b7785", "#ffffff", "#3b6fa0", "#edf0f3"
#: What marks look like: errors first, then the colours of warnings in the order of their names.
_ERROR = "#b3261e"
_COLOURS = {
    "suspected_split": "#d9480f",
    "split_not_in_prices": "#d9480f",
    "unit_change": "#c2255c",
    "spike": "#c2255c",
    "jump": "#e67700",
    "wick": "#e67700",
    "gap": "#7048e8",
    "calendar_gap": "#7048e8",
    "session_gap": "#7048e8",
    "stale_price": "#2b8a3e",
    "zero_volume": "#5c940d",
}
_OTHER = "#495057"
_DAY = len("2024-01-31")


def picture_of(report: DataReport, *, title: str) -> str:
    """The picture as an SVG document, which needs nothing beside itself.

    Args:
        report: What there is.
        title: What the bars are called.
    """
    rows = len(report.timeline)
    pitch = min(_STRIP + _GAP, _TALLEST / max(rows, 1))
    bottom = _TOP + max(pitch * rows, _STRIP)
    legend = list(dict.fromkeys(found.defect for found in report.summary.findings))
    height = bottom + 44 + 20 * ((len(legend) + 2) // 3)
    return "".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:.0f}" width="{_WIDTH}" ',
            f'height="{height:.0f}" font-family="Helvetica, Arial, sans-serif" font-size="11" fill="{_INK}">\n',
            f'<rect width="100%" height="100%" fill="{_PAPER}"/>\n',
            *_head(report.summary, title),
            *_strips(report, pitch),
            *_marks(report, pitch),
            *_axis(report, bottom),
            *_legend(report.summary.findings, legend, bottom + 50),
            "</svg>\n",
        ]
    )


def _head(summary: DataSummary, title: str) -> Iterator[str]:
    yield _text(_LEFT, 28, title, size=16, weight="bold")
    traded = f", {summary.days}" if summary.days else ""
    kept = f", holidays of {summary.exchange}" if summary.exchange else ""
    span = f" from {summary.start} to {summary.end}" if summary.start else ""
    counts = f"{_count(summary.assets, 'asset')}, {_count(summary.bars, 'bar')}"
    line = f"{counts}{span}; {summary.bar or 'no bars'}{traded}{kept}"
    yield _text(_LEFT, 46, line, colour=_PALE)
    clean = "nothing looks wrong"
    found = f"{_count(summary.errors, 'error')}, {_count(summary.warnings, 'warning')}"
    wrong = bool(summary.findings)
    yield _text(_LEFT, 62, found if wrong else clean, colour=_ERROR if summary.errors else _INK if wrong else _FULL)


def _strips(report: DataReport, pitch: float) -> Iterator[str]:
    height = max(pitch - (_GAP if pitch > 2 * _GAP else 0.0), 0.5)
    for row, (asset, shares) in enumerate(zip(report.coverage, report.timeline, strict=True)):
        top = _TOP + row * pitch
        if height >= _NAMED:
            yield _text(_LEFT - 8, top + height - 3, asset.asset, anchor="end")
        yield _rect(_LEFT, top, _span(), height, _LACK)
        for first, last, share in _runs(shares):
            left = _LEFT + _span() * first / len(shares)
            width = _span() * (last - first) / len(shares)
            if share:
                yield _rect(left, top, width, height, _FULL, opacity=0.25 + 0.75 * share)


def _runs(shares: tuple[float, ...]) -> Iterator[tuple[int, int, float]]:
    """Slices in a row that have one share: the first, the one behind the last, and the share."""
    first = 0
    for place in range(1, len(shares) + 1):
        if place == len(shares) or shares[place] != shares[first]:
            yield first, place, shares[first]
            first = place


def _marks(report: DataReport, pitch: float) -> Iterator[str]:
    """A mark at the first place of each finding that has a date: on its asset's strip, or above all of them."""
    rows = {asset.asset: row for row, asset in enumerate(report.coverage)}
    size = min(max(pitch / 2, 2.5), 5.0)
    for found in report.summary.findings:
        across = _place(report.summary, found)
        if across is None:
            continue
        middle = _TOP + (rows[found.asset] + 0.5) * pitch - 2 if found.asset in rows else _TOP - 7
        colour = _colour(found.defect)
        label = escape(escaped(f"{found.asset or ''} {found.place}: {DEFECTS[found.defect].words[0]}, {found.text}"))
        points = f"{across:.1f},{middle - size:.1f} {across + size:.1f},{middle:.1f} "
        points += f"{across:.1f},{middle + size:.1f} {across - size:.1f},{middle:.1f}"
        yield f'<polygon points="{points}" fill="{colour}" stroke="{_PAPER}"><title>{label}</title></polygon>\n'


def _place(summary: DataSummary, found: Finding) -> float | None:
    """Where on the picture the date of a finding lies; None where it has none, or lies outside."""
    date = next((word for word in found.place.replace(",", " ").split() if len(word) >= _DAY and word[4] == "-"), None)
    if date is None or summary.start is None or summary.end is None:
        return None
    first, last, day = (_days(text) for text in (summary.start, summary.end, date))
    if not first <= day <= last:
        return None
    return _LEFT + _span() * (day - first) / max(last - first, 1e-9)


def _axis(report: DataReport, bottom: float) -> Iterator[str]:
    summary = report.summary
    if summary.start is None or summary.end is None:
        return
    first, last = _days(summary.start), _days(summary.end)
    for tick in range(_TICKS + 1):
        across = _LEFT + _span() * tick / _TICKS
        ends = f'x1="{across:.1f}" y1="{_TOP}" x2="{across:.1f}" y2="{bottom + 4:.1f}"'
        yield f'<line {ends} stroke="{_INK}" opacity="0.12"/>\n'
        yield _text(across, bottom + 18, _date(first + (last - first) * tick / _TICKS), anchor="middle", colour=_PALE)


def _legend(findings: Iterable[Finding], defects: list[str], top: float) -> Iterator[str]:
    counts = {defect: sum(found.count for found in findings if found.defect == defect) for defect in defects}
    for place, defect in enumerate(defects):
        left, line = _LEFT + (place % 3) * _span() / 3, top + 20 * (place // 3)
        yield f'<circle cx="{left + 4:.1f}" cy="{line - 4:.1f}" r="4" fill="{_colour(defect)}"/>\n'
        yield _text(left + 14, line, f"{counts[defect]} {DEFECTS[defect].words[counts[defect] != 1]}")


def _colour(defect: str) -> str:
    return _ERROR if DEFECTS[defect].severity == "error" else _COLOURS.get(defect, _OTHER)


def _span() -> float:
    return float(_WIDTH - _LEFT - _RIGHT)


def _days(text: str) -> float:
    from alphaswarm_rl.arrays.moments import moment

    return float(moment(text).astype("datetime64[s]").astype(int)) / 86_400.0


def _date(days: float) -> str:
    from datetime import UTC, datetime, timedelta

    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=days)).date().isoformat()


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _rect(left: float, top: float, width: float, height: float, colour: str, *, opacity: float = 1.0) -> str:
    box = f'x="{left:.1f}" y="{top:.2f}" width="{width:.1f}" height="{height:.2f}"'
    return f'<rect {box} fill="{colour}" opacity="{opacity:.2f}"/>\n'


def _text(
    left: float, top: float, text: str, *, size: int = 11, anchor: str = "start", colour: str = _INK, weight: str = ""
) -> str:
    look = f'font-size="{size}" text-anchor="{anchor}" fill="{colour}"' + (f' font-weight="{weight}"' if weight else "")
    return f'<text x="{left:.1f}" y="{top:.1f}" {look}>{escape(escaped(text))}</text>\n'

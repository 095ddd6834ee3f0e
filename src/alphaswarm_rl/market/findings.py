"""What can be wrong with bars, by name: errors, with which no panel is made, and warnings, which a run tells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning"]

#: How many places a notice names.
_MOST_PLACES = 5


@dataclass(frozen=True)
class Defect:
    """A way in which bars can be wrong.

    Attributes:
        severity: An error makes bars unusable; a warning says that they look wrong and may be right.
        words: What it is, of one and of several.
        remedy: What to do about it.
    """

    severity: Severity
    words: tuple[str, str]
    remedy: str


_MEND = "Mend the file."
#: Every defect by its name, errors first.
DEFECTS: dict[str, Defect] = {
    "unreadable": Defect("error", ("unreadable table", "unreadable tables"), "Check the file."),
    "other_separator": Defect(
        "error", ("file of another separator", "files of another separator"), "Say which one it is by separator."
    ),
    "missing_column": Defect(
        "error", ("missing column", "missing columns"), "Name it by columns (--column MEANING=NAME), or rename it."
    ),
    "ambiguous_column": Defect(
        "error", ("column of a meaning twice", "columns of a meaning twice"), "Say by columns which one is meant."
    ),
    "missing_date": Defect("error", ("row without a date", "rows without a date"), "Leave those rows out."),
    "bad_date": Defect("error", ("unreadable date", "unreadable dates"), "Write dates in ISO form, as 2017-06-30."),
    "mixed_zones": Defect("error", ("mix of time zones", "mixes of time zones"), "Convert all moments to UTC."),
    "missing_asset": Defect("error", ("row without an asset", "rows without an asset"), "Name the asset."),
    "bad_asset": Defect("error", ("asset that is not text", "assets that are not text"), "Name assets by text."),
    "not_a_number": Defect("error", ("cell that is no number", "cells that are no numbers"), _MEND),
    "bad_price": Defect("error", ("price that is none", "prices that are none"), "Prices are positive and finite."),
    "bad_amount": Defect("error", ("impossible amount", "impossible amounts"), "Amounts are finite and not negative."),
    "incomplete_bar": Defect("error", ("incomplete bar", "incomplete bars"), "Mend them, or leave the column out."),
    "high_below_low": Defect(
        "error", ("high below its low", "highs below their lows"), "Mend those bars or drop them."
    ),
    "outside_range": Defect(
        "error", ("price outside of high and low", "prices outside of high and low"), "Mend those bars or drop them."
    ),
    "double_row": Defect("error", ("double row", "double rows"), "Keep one of them."),
    "unsorted_row": Defect("error", ("row out of order", "rows out of order"), "Sort each asset's rows by time."),
    "no_bar": Defect("error", ("asset without a bar", "assets without a bar"), "Leave the asset out."),
    "too_few_bars": Defect("error", ("table of too few bars", "tables of too few bars"), "Give it more bars."),
    "refused": Defect("error", ("refusal", "refusals"), "See what it says."),
    "suspected_split": Defect(
        "warning", ("unmarked split", "unmarked splits"), "Mark it in a column splits, or use adjusted prices."
    ),
    "split_not_in_prices": Defect(
        "warning",
        ("marked split that prices do not show", "marked splits that prices do not show"),
        "The prices may be adjusted already: leave the column splits out, or it counts twice.",
    ),
    "unit_change": Defect(
        "warning", ("change of unit", "changes of unit"), "Bring all prices to one unit, such as pounds, not pence."
    ),
    "spike": Defect("warning", ("price that comes and goes", "prices that come and go"), "Mend those bars."),
    "jump": Defect("warning", ("jump", "jumps"), "Check that price."),
    "wick": Defect("warning", ("high or low far away", "highs or lows far away"), "Check those bars."),
    "gap": Defect(
        "warning",
        ("missing bar that others have", "missing bars that others have"),
        "Find the missing bars; a gap is not traded.",
    ),
    "calendar_gap": Defect("warning", ("missing trading day", "missing trading days"), "Find the missing bars."),
    "session_gap": Defect("warning", ("bar missing in a day", "bars missing in a day"), "Find the missing bars."),
    "odd_day": Defect(
        "warning", ("bar on a day that does not trade", "bars on days that do not trade"), "Check their dates."
    ),
    "misaligned": Defect(
        "warning", ("asset at other times", "assets at other times"), "Label the bars of all assets alike."
    ),
    "stale_price": Defect("warning", ("unchanged close", "unchanged closes"), "Check whether it traded then."),
    "zero_volume": Defect("warning", ("bar without volume", "bars without volume"), "Check whether it traded then."),
    "same_series": Defect(
        "warning", ("copy of another asset", "copies of another asset"), "Check the names, or leave one out."
    ),
}


@dataclass(frozen=True)
class Finding:
    """One defect of one asset, or of the whole table.

    Attributes:
        defect: Its name, one of `DEFECTS`.
        severity: Whether it is an error or a warning.
        asset: Whose bars; None: everybody's.
        count: How often it was found.
        place: Where first: a date, a row, a column.
        text: What was found, in words.
        remedy: What to do about it.
    """

    defect: str
    severity: Severity
    asset: str | None
    count: int
    place: str
    text: str
    remedy: str


def finding(defect: str, text: str, *, place: str = "", asset: str | None = None, count: int = 1) -> Finding:
    """A finding of a known defect."""
    known = DEFECTS[defect]
    return Finding(defect, known.severity, asset, int(count), place, text, known.remedy)


def counted_notices(findings: Iterable[Finding]) -> list[str]:
    """One notice for each defect among them: how often, where first, and what to do."""
    by_defect: dict[str, list[Finding]] = {}
    for each in findings:
        by_defect.setdefault(each.defect, []).append(each)
    return [_notice(defect, by_defect[defect]) for defect in DEFECTS if defect in by_defect]


def _notice(defect: str, found: Sequence[Finding]) -> str:
    known, count = DEFECTS[defect], sum(each.count for each in found)
    places = [
        " ".join(part for part in (each.asset or "", each.place, f"({each.text})") if part)
        for each in found[:_MOST_PLACES]
    ]
    others = f" and {len(found) - _MOST_PLACES} other assets" if len(found) > _MOST_PLACES else ""
    return f"data: {count} {known.words[count != 1]}: {'; '.join(places)}{others}. {known.remedy}"

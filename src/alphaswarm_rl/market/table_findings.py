"""What is wrong in a table of bars, all of it: a panel is refused for the first mistake, a check names every one.

The table is read as `panel_frame` reads it. Whatever is left once wrong rows are taken out becomes bars, so that the
rest can be looked at too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from alphaswarm_rl.arrays.moments import shown
from alphaswarm_rl.core.control_characters import control_character
from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.core.types import Array
from alphaswarm_rl.market.bar_findings import Bars
from alphaswarm_rl.market.findings import Finding, finding
from alphaswarm_rl.market.panel_build import units_carried
from alphaswarm_rl.market.panel_checks import AMOUNTS, BEYOND, PRICES, WITH_EVERY_BAR
from alphaswarm_rl.market.panel_columns import (
    SPELLINGS,
    by_meaning,
    decimal_comma,
    flat,
    has_decimal_comma,
    place_of,
    utc_of,
)

if TYPE_CHECKING:
    import pandas as pd

_NUMBERS = (*PRICES, *AMOUNTS)
#: Bars that can be looked at.
_FEWEST = 2
#: Columns of a table that a finding names.
_SHOWN = 12


@dataclass(frozen=True)
class TableCheck:
    """What is wrong in a table, and the bars that are left of it.

    Attributes:
        findings: Every mistake.
        columns: Which column has which meaning.
        bars: The bars of the rows that are right; None where there are too few.
    """

    findings: tuple[Finding, ...]
    columns: Mapping[str, str]
    bars: Bars | None


def check_table(frame: pd.DataFrame, *, asset: str | None = None) -> TableCheck:
    """Looks at a table with one row per bar and asset.

    Args:
        frame: The table, its columns named by meaning or by a spelling of it.
        asset: The only asset, where no column names it.
    """
    frame = flat(frame)
    try:
        columns = by_meaning(frame.columns)
    except DataError as error:
        return TableCheck((finding("ambiguous_column", error.why, place=error.what),), {}, None)
    known = {meaning: str(name) for meaning, name in columns.items()}
    missing = _missing_columns(frame.columns, columns, named=asset is not None)
    if missing:
        return TableCheck(tuple(missing), known, None)
    times, findings = _moments(frame[columns["timestamp"]])
    codes, names, unnamed = _assets(frame, columns, asset)
    findings += unnamed
    rows = _Rows(frame.index, times, codes, names)
    findings += rows.repeated()
    numbers = {name: _numbers(frame[columns[name]], name, rows) for name in _NUMBERS if name in columns}
    findings += [found for column in numbers.values() for found in column.findings]
    findings += _decimal_commas({name: frame[columns[name]] for name in numbers}, numbers, rows)
    values = {name: column.values for name, column in numbers.items()}
    if "close" not in values:
        values["close"] = values["adj_close"]
    written = ~np.isnan(values["close"]) | numbers["close" if "close" in numbers else "adj_close"].bad
    bad, of_bars = _wrong_bars(values, rows)
    findings += of_bars
    bars, too_few = _bars(rows, values, right=~bad, written=written)
    # Rows that were wrong are missed already.
    return TableCheck(tuple(findings) if findings and bars is None else (*findings, *too_few), known, bars)


@dataclass(frozen=True)
class _Rows:
    """The R rows of a table: its index, their moments (NaT where unknown) and assets (-1), and the assets' names."""

    labels: pd.Index[Any]
    times: Array
    codes: Array
    names: tuple[str, ...]

    def place(self, row: int | np.integer) -> str:
        """Where a row is, in words."""
        if np.isnat(self.times[row]) or self.codes[row] < 0:
            return place_of(self.labels, row)
        return f"{place_of(self.labels, row)}, {shown(self.times[row])}"

    def asset(self, row: int | np.integer) -> str | None:
        """Whose row it is."""
        return None if self.codes[row] < 0 else self.names[int(self.codes[row])]

    @property
    def usable(self) -> Array:
        """Rows with a moment and an asset, (R,) bool."""
        return ~np.isnat(self.times) & (self.codes >= 0)

    def repeated(self) -> list[Finding]:
        """Rows of one bar, and rows that are earlier than their asset's row before."""
        rows = np.flatnonzero(self.usable)
        by_bar = rows[np.lexsort((self.times[rows], self.codes[rows]))]
        same = (np.diff(self.times[by_bar]).astype(np.int64) == 0) & (np.diff(self.codes[by_bar]) == 0)
        double = by_bar[1:][same]
        by_asset = rows[np.argsort(self.codes[rows], kind="stable")]
        earlier = (np.diff(self.times[by_asset]).astype(np.int64) < 0) & (np.diff(self.codes[by_asset]) == 0)
        return [
            *self.found("double_row", double, "the bar is there before"),
            *self.found("unsorted_row", by_asset[1:][earlier], "it is earlier than the asset's row before it"),
        ]

    def found(self, defect: str, rows: Array, text: str) -> list[Finding]:
        """One finding for each asset of these rows."""
        found = []
        for code in np.unique(self.codes[rows]):
            own = np.sort(rows[self.codes[rows] == code])
            found.append(finding(defect, text, asset=self.asset(own[0]), place=self.place(own[0]), count=len(own)))
        return found


def _missing_columns(names: Iterable[object], columns: Mapping[str, object], *, named: bool) -> list[Finding]:
    needed = ["timestamp", *(() if named else ("asset",)), *(() if "adj_close" in columns else ("close",))]
    shown = [repr(str(name)) for name in names]
    more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    present = f"the table has {', '.join(shown[:_SHOWN])}{more}"
    return [
        finding("missing_column", f"spellings that count: {', '.join(SPELLINGS[meaning])}; {present}", place=meaning)
        for meaning in needed
        if meaning not in columns
    ]


def _moments(column: pd.Series) -> tuple[Array, list[Finding]]:
    """The moments of a column, NaT where there is none, and what is wrong with it."""
    import pandas as pd

    nothing = np.full(len(column), np.datetime64("NaT", "ns"))
    if pd.api.types.is_numeric_dtype(column.dtype):
        return nothing, [finding("bad_date", f"its type is {column.dtype}", place=f"column {column.name}")]
    missing = column.isna().to_numpy()
    bad = np.zeros(len(column), bool)
    if not pd.api.types.is_datetime64_any_dtype(column.dtype):
        codes, different = pd.factorize(column)
        empty = np.array([isinstance(value, str) and not value.strip() for value in different], bool)
        unread = pd.to_datetime(pd.Series(different), format="ISO8601", utc=True, errors="coerce").isna().to_numpy()
        missing = missing | np.append(empty, True)[codes]
        bad = np.append(unread & ~empty, False)[codes]
    findings = []
    for defect, wrong in (("missing_date", missing), ("bad_date", bad)):
        rows = np.flatnonzero(wrong)
        if len(rows):
            value = "there is none" if defect == "missing_date" else f"{column.iloc[rows[0]]!r:.60}"
            findings.append(finding(defect, value, place=place_of(column.index, rows[0]), count=len(rows)))
    right = ~missing & ~bad
    try:
        nothing[right] = utc_of(column[right], "timestamp")
    except DataError as error:
        defect = "mixed_zones" if "mixed time zones" in error.why else "bad_date"
        findings.append(finding(defect, error.why, place=f"column {column.name}"))
    return nothing, findings


def _assets(
    frame: pd.DataFrame, columns: Mapping[str, object], only: str | None
) -> tuple[Array, tuple[str, ...], list[Finding]]:
    """Index of each row's asset, -1 where it has none, the assets' names, and what is wrong with them."""
    import pandas as pd

    if only is not None:
        return np.zeros(len(frame), np.int64), (only,), []
    codes, found = pd.factorize(frame[columns["asset"]])
    findings = []
    wrong = [code for code, name in enumerate(found) if not isinstance(name, str) or control_character(name)]
    empty = [code for code, name in enumerate(found) if isinstance(name, str) and not name.strip()]
    unnamed = np.flatnonzero((codes < 0) | np.isin(codes, empty))
    if len(unnamed):
        findings.append(
            finding("missing_asset", "it has no name", place=place_of(frame.index, unnamed[0]), count=len(unnamed))
        )
    if wrong:
        text = f"{found[wrong[0]]!r} is {type(found[wrong[0]]).__name__}"
        row = int(np.flatnonzero(codes == wrong[0])[0])
        findings.append(finding("bad_asset", text, place=place_of(frame.index, row), count=len(wrong)))
    names = tuple(str(name) for name in found)
    order = sorted(set(range(len(names))) - set(wrong) - set(empty), key=names.__getitem__)
    index = np.full(len(names) + 1, -1)
    index[order] = np.arange(len(order))
    return index[codes], tuple(names[code] for code in order), findings


@dataclass(frozen=True)
class _Numbers:
    """A column of numbers.

    Attributes:
        values: The numbers, NaN where there is none.
        bad: Cells that are none, (R,) bool.
        commas: Those of them that are numbers with a decimal comma.
        findings: What is wrong but for these: they are one mistake of the whole table.
    """

    values: Array
    bad: Array
    commas: Array
    findings: tuple[Finding, ...]


def _numbers(column: pd.Series, name: str, rows: _Rows) -> _Numbers:
    """The numbers of a column and the cells that are none."""
    import pandas as pd

    none = np.zeros(len(column), bool)
    if pd.api.types.is_bool_dtype(column.dtype) or pd.api.types.is_datetime64_any_dtype(column.dtype):
        found = finding("not_a_number", f"its type is {column.dtype}", place=f"column {name}", count=len(column))
        return _Numbers(np.full(len(column), np.nan), ~none, none, (found,))
    values = pd.to_numeric(column, errors="coerce")
    bad = (values.isna() & column.notna()).to_numpy()
    commas = none.copy()
    commas[bad] = [has_decimal_comma(cell) for cell in column[bad]]
    others = np.flatnonzero(bad & ~commas)
    text = f"{name} {column.iloc[others[0]]!r:.60}" if len(others) else ""
    numbers = np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
    return _Numbers(numbers, bad, commas, tuple(rows.found("not_a_number", others, text)))


def _decimal_commas(table: Mapping[str, pd.Series], numbers: Mapping[str, _Numbers], rows: _Rows) -> list[Finding]:
    """One finding for all cells with a decimal comma, whatever their columns and assets."""
    found = {name: np.flatnonzero(column.commas) for name, column in numbers.items() if column.commas.any()}
    if not found:
        return []
    every = np.concatenate([*found.values()])
    name, *others = found
    cell = table[name].iloc[found[name][0]]
    more = f", and so in {', '.join(others)}" if others else ""
    return [
        finding(
            "not_a_number",
            f"{name} {cell!r:.60}{more}. {decimal_comma(cell)}".rstrip("."),
            asset=rows.asset(every[0]) if len(np.unique(rows.codes[every])) == 1 else None,
            place=rows.place(found[name][0]),
            count=len(every),
        )
    ]


def _wrong_bars(values: Mapping[str, Array], rows: _Rows) -> tuple[Array, list[Finding]]:
    """Rows whose bar is wrong, (R,) bool, and what is wrong with them."""
    present = ~np.isnan(values["close"]) & rows.usable
    wrong: list[tuple[str, Array, str]] = []
    for name, column in values.items():
        known = ~np.isnan(column)
        if name in PRICES:
            bad = known & ~((column > 0) & np.isfinite(column))
            wrong.append(("bad_price", bad, f"{name} {_first(column, bad)}"))
        else:
            bad = known & ~((column >= 0) & np.isfinite(column))
            wrong.append(("bad_amount", bad, f"{name} {_first(column, bad)}"))
        if name in WITH_EVERY_BAR:
            wrong.append(("incomplete_bar", present & ~known, f"it has a close and no {name}"))
    high, low = values.get("high"), values.get("low")
    # What is no price is outside of every range: it is named once.
    present = present & ~np.logical_or.reduce([bad for _, bad, _ in wrong])
    if high is not None and low is not None:
        bad = present & (high < low)
        present = present & ~bad
        wrong.append(("high_below_low", bad, f"high {_first(high, bad)}, low {_first(low, bad)}"))
    for name in ("open", "close"):
        for bound, limits, sign in (("high", high, 1.0), ("low", low, -1.0)):
            if name in values and limits is not None:
                bad = present & (sign * (values[name] - limits) > BEYOND * limits)
                text = f"{name} {_first(values[name], bad)}, {bound} {_first(limits, bad)}"
                wrong.append(("outside_range", bad, text))
    findings = [each for defect, bad, text in wrong for each in rows.found(defect, np.flatnonzero(bad), text)]
    return np.logical_or.reduce([bad for _, bad, _ in wrong]), findings


def _first(values: Array, bad: Array) -> str:
    return f"{values[bad.argmax()]:g}" if bad.any() else ""


def _bars(
    rows: _Rows, values: Mapping[str, Array], *, right: Array, written: Array
) -> tuple[Bars | None, list[Finding]]:
    """The bars of the rows that are right, and the assets for which no close is written."""
    kept = np.flatnonzero(rows.usable)
    moments, steps = np.unique(rows.times[kept], return_inverse=True)
    if len(moments) < _FEWEST or not rows.names:
        text = f"it has {len(moments)} and {_FEWEST} are needed"
        return None, [finding("too_few_bars", text)]
    shape = (len(moments), len(rows.names))

    def grid(column: Array, empty: float) -> Array:
        dense = np.full(shape, empty)
        dense[steps, rows.codes[kept]] = column[kept]
        return dense

    close = grid(np.where(right, values["close"], np.nan), np.nan)
    present = ~np.isnan(close)
    empty = np.flatnonzero(~np.isin(np.arange(len(rows.names)), rows.codes[rows.usable & written]))
    findings = [finding("no_bar", "it has no close at all", asset=rows.names[asset]) for asset in empty]
    splits = None
    if "splits" in values:
        splits = grid(np.where(right, values["splits"], np.nan), np.nan)
        splits = np.where(np.isnan(splits) | (splits == 0), 1.0, splits)
    dividends = grid(np.nan_to_num(values["dividends"]), 0.0) if "dividends" in values else None
    others = {name: grid(values[name], np.nan) for name in ("open", "high", "low", "volume") if name in values}
    carried = units_carried(close, splits)
    return Bars(moments, rows.names, present, carried, splits=splits, dividends=dividends, **others), findings

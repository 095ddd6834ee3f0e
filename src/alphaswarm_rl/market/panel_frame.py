"""Panels from pandas frames.

A frame has one row per bar and asset, in any order of assets, each asset's rows in order of time. Columns are found by
meaning (`panel_columns.SPELLINGS`); timestamp, asset and close are needed. Index levels count as columns where their
names have a meaning, and an index of moments without a name is the timestamp.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from alphaswarm_rl.arrays.moments import shown
from alphaswarm_rl.core.errors import DataError, nearest
from alphaswarm_rl.core.types import Array
from alphaswarm_rl.market.panel import FrameOptions, MarketPanel, PanelOptions
from alphaswarm_rl.market.panel_build import DenseBars, assemble, panel_from_arrays
from alphaswarm_rl.market.panel_checks import check_bars
from alphaswarm_rl.market.panel_columns import (
    SPELLINGS,
    by_meaning,
    canonical,
    flags_of,
    flat,
    numbers_of,
    place_of,
    require_column,
    utc_of,
)

if TYPE_CHECKING:
    import pandas as pd

_NUMBERS = ("close", "open", "high", "low", "adj_close", "volume", "dividends", "splits")


@dataclass(frozen=True)
class _Rows:
    """The R rows of a frame that belong to the chosen assets.

    Attributes:
        labels: The frame's index.
        index: Their numbers in the frame, (R,).
        times: Their moments, (R,) datetime64[ns].
        codes: Index of each row's asset in `assets`, (R,).
        assets: Names of the chosen assets.
        moments: The T different moments, sorted.
        steps: Index of each row's moment in `moments`, (R,).
    """

    labels: pd.Index[Any]
    index: Array
    times: Array
    codes: Array
    assets: tuple[str, ...]
    moments: Array
    steps: Array

    def place(self, row: int) -> str:
        """Where a row is, for messages."""
        asset = self.assets[self.codes[row]]
        return place_of(self.labels, self.index[row], f"asset {asset!r}", shown(self.times[row]))

    def grid(self, column: Array, empty: float | bool = np.nan) -> Array:
        """A column of these rows as (T, A), `empty` where there is no row."""
        dense = np.full((len(self.moments), len(self.assets)), empty, column.dtype)
        dense[self.steps, self.codes] = column
        return dense

    def common(self, column: Array, name: str) -> Array:
        """A column of these rows as one value per moment, (T,); all assets must agree."""
        common = np.full(len(self.moments), np.nan)
        known = ~np.isnan(column)
        common[self.steps[known]] = column[known]
        differs = np.flatnonzero(known & (common[self.steps] != column))
        if len(differs):
            raise DataError(
                f"{self.place(int(differs[0]))}, column {name!r}",
                "another asset has another value at this moment",
                "A market feature has one value per moment; take it as a feature instead.",
            )
        return common


def panel_from_frame(frame: pd.DataFrame, **options: Unpack[FrameOptions]) -> MarketPanel:
    """A panel from a frame with one row per bar and asset."""
    frame = flat(frame)
    columns = by_meaning(frame.columns)
    _check_columns(columns, named=bool(options.get("asset")))
    rows = _rows_of(frame, columns, options)
    values, adjusted = _values(frame, columns, rows, options)
    flags = flags_of(frame[columns["tradable"]], "tradable")[rows.index] if "tradable" in columns else None
    features, market_features = options.get("features", ()), options.get("market_features", ())
    for name in (*features, *market_features):
        require_column(frame.columns, name, "a feature")
    extra = {name: numbers_of(frame[name], name)[rows.index] for name in (*features, *market_features)}
    bars = DenseBars(
        rows.moments,
        rows.assets,
        {name: rows.grid(column) for name, column in values.items()},
        None if flags is None else rows.grid(flags, False),
        {name: rows.grid(extra[name]) for name in features},
        {name: rows.common(extra[name], name) for name in market_features},
    )
    facts: FrameOptions = {**options, "adjusted": adjusted}
    return assemble(bars, **facts)


def panel_from_closes(frame: pd.DataFrame, **options: Unpack[PanelOptions]) -> MarketPanel:
    """A panel of closes, from a frame with one row per moment and one column per asset."""
    names = by_meaning([frame.index.name]) if frame.index.name is not None else {}
    column = next((name for name in frame.columns if canonical(name) == "timestamp"), None)
    moments = frame.index.to_series()
    if column is not None and "timestamp" not in names:
        moments, frame = frame[column], frame.drop(columns=column)
    closes = {name: numbers_of(frame[name], str(name)) for name in frame.columns}
    return panel_from_arrays(
        {
            "timestamps": utc_of(moments, "timestamp"),
            "assets": list(frame.columns),
            "close": np.column_stack(list(closes.values())) if closes else np.empty((len(frame), 0)),
        },
        **options,
    )


def _check_columns(columns: Mapping[str, object], *, named: bool) -> None:
    """Refuses a frame without timestamp, asset (unless the only one is named) or any close."""
    needed = ["timestamp", *(() if named else ("asset",)), *(() if "adj_close" in columns else ("close",))]
    for meaning in needed:
        if meaning not in columns:
            raise DataError(
                f"column {meaning!r}",
                f"the data has no such column; spellings that count: {', '.join(SPELLINGS[meaning])}",
                "Rename a column, or name the only asset by asset=." if meaning == "asset" else "Rename a column.",
            )


def _rows_of(frame: pd.DataFrame, columns: Mapping[str, object], options: FrameOptions) -> _Rows:
    times = utc_of(frame[columns["timestamp"]], str(columns["timestamp"]))
    codes, assets = _assets(frame, columns, options.get("asset"), options.get("assets"))
    index = np.flatnonzero(codes >= 0)
    moments, steps = np.unique(times[index], return_inverse=True)
    return _Rows(frame.index, index, times[index], codes[index], assets, moments, steps)


def _assets(
    frame: pd.DataFrame, columns: Mapping[str, object], only: str | None, chosen: Sequence[str] | None
) -> tuple[Array, tuple[str, ...]]:
    """Index of each row's asset, -1 where it is not chosen, and the assets' names."""
    import pandas as pd

    if only is not None:
        if "asset" in columns:
            raise DataError(
                f"asset {only!r}", f"the data has a column {str(columns['asset'])!r} already", "Use assets= to choose."
            )
        return np.zeros(len(frame), np.int64), (only,)
    column = columns["asset"]
    codes, found = pd.factorize(frame[column])
    for code, name in enumerate(found):
        if not isinstance(name, str) or not name:
            row = int(np.flatnonzero(codes == code)[0])
            raise DataError(
                f"{place_of(frame.index, row)}, column {str(column)!r}",
                f"the asset {name!r} is {type(name).__name__}, not text",
                "Name assets by text, such as frame[column].astype(str).",
            )
    missing = np.flatnonzero(codes < 0)
    if len(missing):
        place = place_of(frame.index, missing[0])
        raise DataError(f"{place}, column {str(column)!r}", "the asset has no name", "Name it.")
    order = tuple(sorted(found)) if chosen is None else tuple(chosen)
    for name in order:
        if name not in set(found):
            raise DataError(f"symbol {name!r}", "the data has no such asset", nearest(name, found))
    index = {name: position for position, name in enumerate(order)}
    return np.array([index.get(name, -1) for name in found], np.int64)[codes], order


def _values(
    frame: pd.DataFrame, columns: Mapping[str, object], rows: _Rows, options: FrameOptions
) -> tuple[dict[str, Array], bool]:
    """The checked prices and amounts of the rows by name, and whether they are adjusted."""
    values = {name: numbers_of(frame[columns[name]], name)[rows.index] for name in _NUMBERS if name in columns}
    adjusted = options.get("adjusted", False)
    if "close" not in values:
        values["close"], adjusted = values.pop("adj_close"), True
    _check_order(rows)
    check_bars(values, rows.place)
    if options.get("adjust", False):
        values, adjusted = _adjusted(values), True
    values.pop("adj_close", None)
    return values, adjusted


def _check_order(rows: _Rows) -> None:
    by_asset = np.argsort(rows.codes, kind="stable")
    steps = np.diff(rows.times[by_asset]).astype(np.int64)
    same = np.diff(rows.codes[by_asset]) == 0
    bad = np.flatnonzero(same & (steps <= 0))
    if not len(bad):
        return
    index = int(by_asset[bad[0] + 1])
    what = f"{rows.place(index)}, column 'timestamp'"
    if steps[bad[0]] == 0:
        same_bar = place_of(rows.labels, rows.index[by_asset[bad[0]]])
        raise DataError(what, f"{same_bar} is the same bar", "Keep one of them.")
    raise DataError(
        what,
        "it is earlier than the asset's row before it",
        "Sort each asset's rows by time (data_pipelines.steps.clean does).",
    )


def _adjusted(values: dict[str, Array]) -> dict[str, Array]:
    if "adj_close" not in values:
        raise DataError(
            "column 'adj_close'", "adjust is asked for and the data has no such column", "Leave adjust out."
        )
    factor = values["adj_close"] / values["close"]
    scaled: dict[str, Array] = {name: values[name] * factor for name in ("open", "high", "low") if name in values}
    kept = {"volume": values["volume"]} if "volume" in values else {}
    return {"close": values["adj_close"], **scaled, **kept}

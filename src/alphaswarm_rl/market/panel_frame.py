"""Panels from pandas frames.

A frame has one row per bar and asset, in any order of assets, each asset's rows in order of time. Columns are found by
meaning (`panel_columns.SPELLINGS`); timestamp, asset and close are needed. Index levels count as columns where their
names have a meaning, and an index of moments without a name is the timestamp.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np

from alphaswarm_rl.arrays.moments import shown
from alphaswarm_rl.core.errors import DataError, nearest
from alphaswarm_rl.market.panel import Array, MarketPanel
from alphaswarm_rl.market.panel_arrays import panel_from_arrays
from alphaswarm_rl.market.panel_build import DenseBars, assemble
from alphaswarm_rl.market.panel_checks import check_bars
from alphaswarm_rl.market.panel_columns import SPELLINGS, by_meaning, canonical, require_column
from alphaswarm_rl.market.panel_options import FrameOptions, PanelOptions
from alphaswarm_rl.market.panel_parse import flags_of, numbers_of, utc_of

_NUMBERS = ("close", "open", "high", "low", "adj_close", "volume", "dividends", "splits")


def panel_from_frame(frame: Any, **options: Unpack[FrameOptions]) -> MarketPanel:
    """A panel from a frame with one row per bar and asset."""
    frame = flat(frame)
    columns = by_meaning(frame.columns)
    for meaning in ("timestamp", *(() if options.get("asset") else ("asset",))):
        _need(columns, meaning)
    if "close" not in columns and "adj_close" not in columns:
        _need(columns, "close")
    times = utc_of(frame[columns["timestamp"]], str(columns["timestamp"]))
    codes, names = _assets(frame, columns, options.get("asset"), options.get("assets"))
    kept = codes >= 0
    rows = np.flatnonzero(kept)
    times, codes = times[kept], codes[kept]

    def place(index: int) -> str:
        return f"row {rows[index]} (asset {names[codes[index]]!r}, {shown(times[index])})"

    values = {name: numbers_of(frame[columns[name]], name)[kept] for name in _NUMBERS if name in columns}
    adjusted = options.get("adjusted", False)
    if "close" not in values:
        values["close"], adjusted = values.pop("adj_close"), True
    _check_order(times, codes, names, rows)
    check_bars(values, place)
    if options.get("adjust", False):
        values, adjusted = _adjusted(values), True
    values.pop("adj_close", None)
    moments, steps = np.unique(times, return_inverse=True)
    shape = (len(moments), len(names))

    def grid(column: Array, empty: Any = np.nan) -> Array:
        dense = np.full(shape, empty, column.dtype)
        dense[steps, codes] = column
        return dense

    flags = flags_of(frame[columns["tradable"]], "tradable")[kept] if "tradable" in columns else None
    wanted = (*options.get("features", ()), *options.get("market_features", ()))
    for name in wanted:
        require_column(frame.columns, name, "a feature")
    extra = {name: numbers_of(frame[name], name)[kept] for name in wanted}
    bars = DenseBars(
        moments,
        names,
        {name: grid(column) for name, column in values.items()},
        None if flags is None else grid(flags, False),
        {name: grid(extra[name]) for name in options.get("features", ())},
        {name: _common(extra[name], steps, len(moments), name, place) for name in options.get("market_features", ())},
    )
    return assemble(bars, **_facts(options, adjusted))


def panel_from_closes(frame: Any, **options: Unpack[PanelOptions]) -> MarketPanel:
    """A panel of closes, from a frame with one row per moment and one column per asset."""
    names = by_meaning([frame.index.name]) if frame.index.name is not None else {}
    column = next((name for name in frame.columns if canonical(name) == "timestamp"), None)
    if column is not None and "timestamp" not in names:
        frame = frame.set_index(column)
    closes = {name: numbers_of(frame[name], str(name)) for name in frame.columns}
    return panel_from_arrays(
        {
            "timestamps": utc_of(frame.index.to_series(), "timestamp"),
            "assets": list(frame.columns),
            "close": np.column_stack(list(closes.values())) if closes else np.empty((len(frame), 0)),
        },
        **options,
    )


def flat(frame: Any) -> Any:
    """The frame with index levels that mean something as columns."""
    import pandas as pd

    levels = [canonical(name) for name in frame.index.names if name is not None]
    if "timestamp" in levels or "asset" in levels:
        return frame.reset_index()
    if isinstance(frame.index, pd.DatetimeIndex) and "timestamp" not in map(canonical, frame.columns):
        return frame.rename_axis("timestamp").reset_index()
    return frame


def _need(columns: dict[str, Any], meaning: str) -> None:
    if meaning not in columns:
        raise DataError(
            f"column {meaning!r}",
            f"the data has no such column; spellings that count: {', '.join(SPELLINGS[meaning])}",
            "Rename a column, or name the only asset by asset=." if meaning == "asset" else "Rename a column.",
        )


def _assets(
    frame: Any, columns: dict[str, Any], only: str | None, wanted: Sequence[str] | None
) -> tuple[Array, tuple[str, ...]]:
    """Index of each row's asset, -1 where it is not wanted, and the assets' names."""
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
                f"row {row}, column {str(column)!r}",
                f"the asset {name!r} is {type(name).__name__}, not text",
                "Name assets by text, such as frame[column].astype(str).",
            )
    missing = np.flatnonzero(codes < 0)
    if len(missing):
        raise DataError(f"row {missing[0]}, column {str(column)!r}", "the asset has no name", "Name it.")
    order = tuple(sorted(found)) if wanted is None else tuple(wanted)
    for name in order:
        if name not in set(found):
            raise DataError(f"symbol {name!r}", "the data has no such asset", nearest(name, found))
    index = {name: position for position, name in enumerate(order)}
    return np.array([index.get(name, -1) for name in found], np.int64)[codes], order


def _check_order(times: Array, codes: Array, names: tuple[str, ...], rows: Array) -> None:
    by_asset = np.argsort(codes, kind="stable")
    steps = np.diff(times[by_asset]).astype(np.int64)
    same = np.diff(codes[by_asset]) == 0
    bad = np.flatnonzero(same & (steps <= 0))
    if not len(bad):
        return
    index = int(by_asset[bad[0] + 1])
    what = f"row {rows[index]} (asset {names[codes[index]]!r}, {shown(times[index])}), column 'timestamp'"
    if steps[bad[0]] == 0:
        raise DataError(what, f"row {rows[by_asset[bad[0]]]} is the same bar", "Keep one of them.")
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


def _common(column: Array, steps: Array, length: int, name: str, place: Any) -> Array:
    """One value per moment; all assets must agree."""
    common = np.full(length, np.nan)
    known = ~np.isnan(column)
    common[steps[known]] = column[known]
    differs = np.flatnonzero(known & (common[steps] != column))
    if len(differs):
        raise DataError(
            f"{place(int(differs[0]))}, column {name!r}",
            "another asset has another value at this moment",
            "A market feature has one value per moment; take it as a feature instead.",
        )
    return common


def _facts(options: FrameOptions, adjusted: bool) -> PanelOptions:
    return PanelOptions(
        adjusted=adjusted,
        periods_per_year=options.get("periods_per_year"),
        stamp=options.get("stamp", "open"),
        feature_dtype=options.get("feature_dtype", "float32"),
        training_only=options.get("training_only", ()),
    )

"""Panels from arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

import numpy as np

from alphaswarm_rl.arrays.moments import shown
from alphaswarm_rl.core.errors import DataError, nearest
from alphaswarm_rl.market.panel import Array, MarketPanel
from alphaswarm_rl.market.panel_build import DenseBars, assemble
from alphaswarm_rl.market.panel_checks import Place, check_bars, check_names, check_times
from alphaswarm_rl.market.panel_options import PanelOptions

_COLUMNS = ("close", "open", "high", "low", "volume", "dividends", "splits")
_KEYS = {"timestamps", "assets", *_COLUMNS, "tradable", "features", "market_features"}


def panel_from_arrays(arrays: Mapping[str, Any], **options: Unpack[PanelOptions]) -> MarketPanel:
    """A panel from arrays by name.

    Args:
        arrays: `timestamps` (T,) datetime64 in UTC; `assets` (A,); `close` (T, A), NaN where there is no bar; any of
            open, high, low, volume, dividends, splits (T, A) and `tradable` (T, A) bool; `features`, a mapping of
            arrays (T, A); `market_features`, a mapping of arrays (T,).
        options: Facts about the bars.
    """
    for key in arrays:
        if key not in _KEYS:
            raise DataError(f"array {key!r}", "a panel has no such array", nearest(str(key), _KEYS))
    for key in ("timestamps", "assets", "close"):
        if key not in arrays:
            raise DataError(f"array {key!r}", "it is missing", "Give timestamps, assets and close.")
    timestamps = _timestamps(arrays["timestamps"])
    assets = check_names(list(arrays["assets"]), "asset")
    shape = (len(timestamps), len(assets))
    columns = {name: _grid(arrays[name], name, shape) for name in _COLUMNS if arrays.get(name) is not None}
    flags = arrays.get("tradable")
    check_times(timestamps, lambda row: f"row {row}, column 'timestamps'")
    check_bars(columns, places(timestamps, assets))
    return assemble(
        DenseBars(
            timestamps,
            assets,
            columns,
            None if flags is None else _flags(flags, shape),
            dict(arrays.get("features") or {}),
            dict(arrays.get("market_features") or {}),
        ),
        **options,
    )


def places(timestamps: Array, assets: tuple[str, ...]) -> Place:
    """Says where in a grid of moments and assets a flat index lies."""

    def place(index: int) -> str:
        row, column = divmod(index, len(assets))
        return f"row {row} (asset {assets[column]!r}, {shown(timestamps[row])})"

    return place


def _timestamps(values: Any) -> Array:
    array = np.asarray(values)
    if array.dtype.kind != "M" or array.ndim != 1:
        raise DataError(
            "array 'timestamps'",
            f"it is {array.dtype} with {array.ndim} dimension(s), not one of datetime64",
            "Convert it, such as numpy.array(dates, 'datetime64[ns]').",
        )
    missing = np.flatnonzero(np.isnat(array))
    if len(missing):
        raise DataError(f"row {missing[0]}, column 'timestamps'", "it is missing", "Leave the row out.")
    return array.astype("datetime64[ns]")


def _grid(values: Any, name: str, shape: tuple[int, int]) -> Array:
    array = np.asarray(values)
    if array.shape != shape or array.dtype.kind not in "fiu":
        raise DataError(
            f"array {name!r}", f"it is {array.dtype} {array.shape}, not numbers {shape}", "One row per moment."
        )
    # A copy, so that a later change of the caller's array does not reach the panel.
    return array.astype(np.float64)


def _flags(values: Any, shape: tuple[int, int]) -> Array:
    array = np.asarray(values)
    if array.shape != shape or array.dtype != np.bool_:
        raise DataError("array 'tradable'", f"it is {array.dtype} {array.shape}, not bool {shape}", "Convert it.")
    return array

"""From arrays with holes to a panel, and features added to one.

Bars lie on a grid (T, A) of moments and assets, NaN where an asset has none. Gaps stay gaps: the last close is carried
forward for marking, never back. Features become finite everywhere, with a note where each begins to mean something.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Required, TypedDict, Unpack

import numpy as np

from alphaswarm_rl.arrays.moments import shown
from alphaswarm_rl.core.errors import DataError, nearest
from alphaswarm_rl.core.types import Array
from alphaswarm_rl.market.calendar import bar_seconds, periods_per_year
from alphaswarm_rl.market.panel import BAR_COLUMNS, FEWEST_BARS, FrameOptions, MarketPanel, PanelOptions
from alphaswarm_rl.market.panel_checks import Place, check_bars, check_names, check_times


class PanelArrays(TypedDict, total=False):
    """The arrays that a panel is made from.

    Attributes:
        timestamps: Labels of the bars, (T,) datetime64 in UTC.
        assets: Names of the assets, (A,).
        close: Closing prices, (T, A); NaN where there is no bar.
        open: Opening prices, (T, A); high, low, volume, dividends and splits likewise.
        tradable: Where a bar may be traded, (T, A) bool.
        features: Arrays (T, A) by name.
        market_features: Arrays (T,) by name.
    """

    timestamps: Required[Array]
    assets: Required[Sequence[str]]
    close: Required[Array]
    open: Array | None
    high: Array | None
    low: Array | None
    volume: Array | None
    dividends: Array | None
    splits: Array | None
    tradable: Array | None
    features: Mapping[str, Array] | None
    market_features: Mapping[str, Array] | None


@dataclass(frozen=True)
class DenseBars:
    """Bars on a grid of moments and assets, NaN where there is none, already checked.

    Attributes:
        timestamps: Moments, (T,) datetime64[ns], strictly increasing.
        assets: Names of the assets.
        columns: `close` and any of open, high, low, volume, dividends, splits; (T, A) float64.
        flags: Where a bar may be traded, (T, A) bool; None is wherever there is one.
        features: Features by name, (T, A).
        market_features: Market features by name, (T,).
    """

    timestamps: Array
    assets: tuple[str, ...]
    columns: Mapping[str, Array]
    flags: Array | None = None
    features: Mapping[str, Array] = field(default_factory=dict)
    market_features: Mapping[str, Array] = field(default_factory=dict)


def panel_from_arrays(arrays: PanelArrays, **options: Unpack[PanelOptions]) -> MarketPanel:
    """A panel from arrays by name, checked."""
    given: Mapping[str, object] = arrays
    for key in given:
        if key not in PanelArrays.__annotations__:
            raise DataError(
                f"array {key!r}", "a panel has no such array", nearest(str(key), PanelArrays.__annotations__)
            )
    for key in ("timestamps", "assets", "close"):
        if key not in given:
            raise DataError(f"array {key!r}", "it is missing", "Give timestamps, assets and close.")
    timestamps = _timestamps(arrays["timestamps"])
    assets = check_names(list(arrays["assets"]), "asset")
    shape = (len(timestamps), len(assets))
    columns = {name: _grid(given[name], name, shape) for name in BAR_COLUMNS if given.get(name) is not None}
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


def _timestamps(values: object) -> Array:
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


def _grid(values: object, name: str, shape: tuple[int, int]) -> Array:
    array = np.asarray(values)
    if array.shape != shape or array.dtype.kind not in "fiu":
        raise DataError(
            f"array {name!r}", f"it is {array.dtype} {array.shape}, not numbers {shape}", "One row per moment."
        )
    # A copy, so that a later change of the caller's array does not reach the panel.
    return array.astype(np.float64)


def _flags(values: object, shape: tuple[int, int]) -> Array:
    array = np.asarray(values)
    if array.shape != shape or array.dtype != np.bool_:
        raise DataError("array 'tradable'", f"it is {array.dtype} {array.shape}, not bool {shape}", "Convert it.")
    return array


def assemble(bars: DenseBars, **options: Unpack[FrameOptions]) -> MarketPanel:
    """The panel of these bars; what only frames need is settled already."""
    _refuse_too_few(bars)
    length = len(bars.timestamps)
    raw = bars.columns["close"]
    present = ~np.isnan(raw)
    splits = None
    if "splits" in bars.columns:
        # Sources write 0 on days without a split, and a share stays one share then.
        splits = np.nan_to_num(bars.columns["splits"], nan=1.0)
        splits = np.where(splits == 0, 1.0, splits)
    close = units_carried(raw, splits)
    columns: dict[str, Any] = {
        name: np.where(present, bars.columns[name], close) for name in ("open", "high", "low") if name in bars.columns
    }
    if "volume" in bars.columns:
        columns["volume"] = np.where(present, bars.columns["volume"], 0.0)
    if "dividends" in bars.columns:
        columns["dividends"] = np.nan_to_num(bars.columns["dividends"], nan=0.0)
    if splits is not None:
        columns["splits"] = splits
    dtype = np.dtype(options.get("feature_dtype", "float32"))
    given = options.get("periods_per_year")
    panel = MarketPanel(
        timestamps=bars.timestamps,
        assets=bars.assets,
        close=close,
        tradable=present if bars.flags is None else present & bars.flags,
        last_bar=(length - 1 - present[::-1].argmax(axis=0)).astype(np.int64),
        features=np.empty((*close.shape, 0), dtype),
        feature_from=np.empty((len(bars.assets), 0), np.int64),
        market_features=np.empty((length, 0), dtype),
        market_feature_from=np.empty(0, np.int64),
        periods_per_year=periods_per_year(bars.timestamps) if given is None else float(given),
        bar_seconds=bar_seconds(bars.timestamps),
        adjusted=options.get("adjusted", False),
        stamp=options.get("stamp", "open"),
        **columns,
    )
    if bars.features:
        panel = panel.with_features(bars.features, training_only=options.get("training_only", ()))
    elif options.get("training_only"):
        raise DataError("training_only", "there is no feature to be marked by it", "Name the feature's column too.")
    return panel.with_market_features(bars.market_features) if bars.market_features else panel


def units_carried(raw: Array, splits: Array | None) -> Array:
    """Closes with the last one carried over gaps, in the units that are valid there; NaN before the first.

    Args:
        raw: Closes, (T, A), NaN at gaps.
        splits: Shares after one before, 1 where there is none; None: there are none.
    """
    steps = np.arange(len(raw))[:, None]
    source = np.maximum.accumulate(np.where(np.isnan(raw), -1, steps), axis=0)
    close = np.where(source >= 0, np.take_along_axis(raw, np.maximum(source, 0), axis=0), np.nan)
    if splits is None:
        return close
    # A price that is carried over a split is that of the new units.
    units = np.cumprod(splits, axis=0)
    since = np.take_along_axis(units, np.maximum(source, 0), axis=0)
    return np.asarray(close * np.where(units == since, 1.0, since / units))


def _refuse_too_few(bars: DenseBars) -> None:
    if len(bars.timestamps) < FEWEST_BARS:
        raise DataError(
            "the panel",
            f"it has {len(bars.timestamps)} bar(s) and {FEWEST_BARS} are needed",
            "An agent acts at one bar and is filled at the next: give it more.",
        )
    empty = np.flatnonzero(np.isnan(bars.columns["close"]).all(axis=0))
    if len(empty):
        raise DataError(
            f"asset {bars.assets[int(empty[0])]!r}, column 'close'", "it has no bar at all", "Leave the asset out."
        )


def forward(values: Array, neutral: float | Array) -> tuple[Array, Array]:
    """Values without NaN, and where they begin.

    Args:
        values: Array (T, ...) known at the close of t; NaN where nothing is known.
        neutral: What stands before the first known value; a number, or an array of the same shape, in which NaN is 0.

    Returns:
        The array with each NaN replaced by the last value before it, or the neutral one; and the index of the first
        known value along time, T where there is none.
    """
    known = ~np.isnan(values)
    steps = np.arange(len(values)).reshape(-1, *[1] * (values.ndim - 1))
    source = np.maximum.accumulate(np.where(known, steps, -1), axis=0)
    carried = np.take_along_axis(values, np.maximum(source, 0), axis=0)
    filled = np.where(source >= 0, carried, np.nan_to_num(neutral, nan=0.0))
    first = np.where(known.any(axis=0), known.argmax(axis=0), len(values))
    return filled, first.astype(np.int64)


def add_features(
    panel: MarketPanel,
    features: Mapping[str, Array],
    neutral: Mapping[str, float | Array],
    training_only: frozenset[str],
) -> MarketPanel:
    """The panel with these features behind those it has."""
    shape = panel.close.shape
    columns, starts = [panel.features], [panel.feature_from]
    for name, values in features.items():
        values = _finite(name, values, shape, panel)
        filled, first = forward(values, neutral.get(name, 0.0))
        columns.append(filled[:, :, None].astype(panel.dtype))
        starts.append(first[:, None])
    return replace(
        panel,
        features=np.concatenate(columns, axis=2),
        feature_from=np.concatenate(starts, axis=1),
        feature_names=(*panel.feature_names, *features),
        training_only_features=panel.training_only_features | training_only,
    )


def add_market_features(panel: MarketPanel, features: Mapping[str, Array]) -> MarketPanel:
    """The panel with these market features behind those it has."""
    columns, starts = [panel.market_features], [panel.market_feature_from]
    for name, values in features.items():
        filled, first = forward(_finite(name, values, (panel.num_bars,), panel), 0.0)
        columns.append(filled[:, None].astype(panel.dtype))
        starts.append(np.atleast_1d(first))
    return replace(
        panel,
        market_features=np.concatenate(columns, axis=1),
        market_feature_from=np.concatenate(starts),
        market_feature_names=(*panel.market_feature_names, *features),
    )


def _finite(name: str, values: object, shape: tuple[int, ...], panel: MarketPanel) -> Array:
    array = np.asarray(values, dtype=np.float64)
    if array.shape != shape:
        raise DataError(f"feature {name!r}", f"its shape is {array.shape}, not {shape}", "Give one value per bar.")
    bad = np.flatnonzero(np.isinf(array))
    if len(bad):
        row, *column = map(int, np.unravel_index(bad[0], shape))
        asset = f" (asset {panel.assets[column[0]]!r}, {shown(panel.timestamps[row])})" if column else ""
        raise DataError(f"row {row}{asset}, feature {name!r}", "it is infinite", "Make it NaN where it is not known.")
    return array

"""Features of a panel: finite everywhere, with a note where each begins to mean something."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from alphaswarm_rl.arrays.moments import shown
from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.market.panel import Array, MarketPanel


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


def _finite(name: str, values: Any, shape: tuple[int, ...], panel: MarketPanel) -> Array:
    array = np.asarray(values, dtype=np.float64)
    if array.shape != shape:
        raise DataError(f"feature {name!r}", f"its shape is {array.shape}, not {shape}", "Give one value per bar.")
    bad = np.flatnonzero(np.isinf(array))
    if len(bad):
        row, *column = map(int, np.unravel_index(bad[0], shape))
        asset = f" (asset {panel.assets[column[0]]!r}, {shown(panel.timestamps[row])})" if column else ""
        raise DataError(f"row {row}{asset}, feature {name!r}", "it is infinite", "Make it NaN where it is not known.")
    return array

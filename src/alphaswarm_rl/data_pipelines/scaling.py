"""Scalers: learnt from the training window, kept in the checkpoint, applied everywhere, never learnt again."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from alphaswarm_rl.core.contracts import State
from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.core.types import Array
from alphaswarm_rl.market.panel import MarketPanel

Scaler = Literal["none", "zscore", "minmax"]

_NEGLIGIBLE = 1e-9


def fit_scaler(scaler: Scaler, panel: MarketPanel) -> State:
    """What the scaler learns from a panel.

    Bars count that may be traded (not the warm-up) and at which the feature is defined; an asset's bars count where it
    is tradable. Each feature of each asset has its own centre and scale. One without such a bar takes those of the
    feature over all assets, and one that does not vary keeps its scale. Market features stay in their own units: limits
    such as a turbulence of 140 are compared with them.

    Args:
        scaler: `zscore` subtracts the mean and divides by the standard deviation; `minmax` maps the smallest and the
            largest value to 0 and 1, and values beyond them beyond 0 and 1.
        panel: The training window.
    """
    names = {
        "scaler": scaler,
        "assets": list(panel.assets),
        "features": list(panel.feature_names),
        "market_features": list(panel.market_feature_names),
    }
    if scaler == "none":
        return State(data=names)
    bars = np.arange(panel.num_bars)
    counts = (bars[:, None, None] >= panel.feature_from) & panel.tradable[:, :, None]
    counts[: panel.warmup] = False
    centre, scale = _learn(scaler, panel.features, counts, axis=(0,))
    pooled_centre, pooled_scale = _learn(scaler, panel.features, counts, axis=(0, 1))
    return State(
        arrays={
            "centre": _or(_or(centre, pooled_centre), 0.0),
            "scale": _or(_or(scale, pooled_scale), 1.0),
        },
        data=names,
    )


def apply_scaler(panel: MarketPanel, state: State) -> MarketPanel:
    """The panel with scaled features; the state must have been learnt from the same assets and features."""
    for key, names in (
        ("assets", panel.assets),
        ("features", panel.feature_names),
        ("market_features", panel.market_feature_names),
    ):
        if list(names) != list(state.data[key]):
            raise DataError(
                f"the scaler's {key}",
                f"it was fitted on {', '.join(state.data[key])} and the data has {', '.join(names)}",
                "Use the same data pipeline as in training.",
            )
    if state.data["scaler"] == "none":
        return panel
    features = (panel.features - state.arrays["centre"]) / state.arrays["scale"]
    return replace(panel, features=features.astype(panel.dtype))


def _learn(scaler: Scaler, values: Array, counts: Array, axis: tuple[int, ...]) -> tuple[Array, Array]:
    """Centre and scale over those axes; NaN where nothing counts."""
    number = counts.sum(axis=axis)
    none = number == 0
    values = values.astype(np.float64)
    if scaler == "minmax":
        low = np.where(counts, values, np.inf).min(axis=axis, initial=np.inf)
        scale = np.where(counts, values, -np.inf).max(axis=axis, initial=-np.inf) - np.where(none, 0.0, low)
        centre = low
    else:
        centre = np.where(counts, values, 0.0).sum(axis=axis) / np.maximum(number, 1)
        spread = np.where(counts, values - np.expand_dims(centre, axis), 0.0)
        scale = np.sqrt((spread**2).sum(axis=axis) / np.maximum(number, 1))
    # The spread of equal numbers is not exactly 0 in floating point.
    scale = np.where(scale > _NEGLIGIBLE * np.abs(np.where(none, 0.0, centre)), scale, 1.0)
    return np.where(none, np.nan, centre), np.where(none, np.nan, scale)


def _or(values: Array, otherwise: Array | float) -> Array:
    return np.where(np.isnan(values), otherwise, values)

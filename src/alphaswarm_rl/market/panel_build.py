"""From checked bars with holes to a panel: gaps stay gaps, closes are carried forward, never back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Unpack

import numpy as np

from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.market.calendar import bar_seconds, periods_per_year
from alphaswarm_rl.market.panel import FEWEST_BARS, Array, MarketPanel
from alphaswarm_rl.market.panel_options import PanelOptions


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


def assemble(bars: DenseBars, **options: Unpack[PanelOptions]) -> MarketPanel:
    """The panel of these bars."""
    _refuse_too_few(bars)
    length = len(bars.timestamps)
    raw = bars.columns["close"]
    present = ~np.isnan(raw)
    source = np.maximum.accumulate(np.where(present, np.arange(length)[:, None], -1), axis=0)
    close = np.where(source >= 0, np.take_along_axis(raw, np.maximum(source, 0), axis=0), np.nan)
    splits = None
    if "splits" in bars.columns:
        # Sources write 0 on days without a split, and a share stays one share then.
        splits = np.nan_to_num(bars.columns["splits"], nan=1.0)
        splits = np.where(splits == 0, 1.0, splits)
        # A price that is carried over a split is that of the new units.
        units = np.cumprod(splits, axis=0)
        since = np.take_along_axis(units, np.maximum(source, 0), axis=0)
        close = close * np.where(units == since, 1.0, since / units)
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

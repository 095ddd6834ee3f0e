"""Indicators on a panel: computed over each asset's own bars, so that a gap is a gap and not a flat price."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.core.types import Array
from alphaswarm_rl.data_pipelines import indicators
from alphaswarm_rl.data_pipelines.feature_names import IndicatorName, check_features, parse_indicator
from alphaswarm_rl.market.panel import MarketPanel


def add_indicators(panel: MarketPanel, names: Sequence[str]) -> MarketPanel:
    """The panel with these indicators as features.

    An indicator at bar t uses the asset's tradable bars up to t. At a gap its last value is repeated; before it is
    defined its neutral value stands (50 for rsi, the close for averages and bands, 0 for all others), and
    `panel.feature_from` says until when.
    """
    check_features(names)
    parsed = [parse_indicator(name) for name in names]
    neutral: dict[str, float | Array] = {
        its.name: panel.close if its.neutral == "close" else its.neutral for its in parsed
    }
    return panel.with_features({its.name: indicator(panel, its) for its in parsed}, neutral=neutral)


def indicator(panel: MarketPanel, name: str | IndicatorName) -> Array:
    """One indicator at the close of every bar, (T, A) float64; NaN at gaps and until it is defined."""
    its = parse_indicator(name) if isinstance(name, str) else name
    columns = []
    for column in its.needs:
        values: Array | None = getattr(panel, column)
        if values is None:
            raise DataError(
                f"feature {its.name!r}",
                f"it needs the column {column!r}, which the panel lacks",
                "Leave it out, or use data with that column.",
            )
        columns.append(values)
    present = panel.tradable
    if present.all():
        return _compute(its, columns)
    out = np.full(present.shape, np.nan)
    for asset in range(panel.num_assets):
        rows = np.flatnonzero(present[:, asset])
        out[rows, asset] = _compute(its, [column[rows, asset : asset + 1] for column in columns])[:, 0]
    return out


def _compute(its: IndicatorName, columns: list[Array]) -> Array:
    if its.kind == "macd":
        return indicators.macd(columns[0])
    if its.kind in ("boll_lb", "boll_ub"):
        lower, upper = indicators.bollinger(columns[0], its.window)
        return lower if its.kind == "boll_lb" else upper
    values: Array = getattr(indicators, its.kind)(*columns, its.window)
    return values

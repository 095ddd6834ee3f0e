"""Features computed from a panel: indicators of its assets, and turbulence and joined series of the whole market.

Indicators are computed over each asset's own bars, so that a gap is a gap and not a flat price; and on prices that
count the splits so far, so that a split is no fall. A split that comes later changes nothing before it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.core.types import Array
from alphaswarm_rl.data_pipelines import indicators
from alphaswarm_rl.data_pipelines.feature_names import IndicatorName, check_features, parse_indicator
from alphaswarm_rl.market.calendar import bar_seconds, known_at
from alphaswarm_rl.market.covariance import bar_returns, sample_covariance
from alphaswarm_rl.market.panel import MarketPanel
from alphaswarm_rl.market.panel_build import forward
from alphaswarm_rl.market.panel_checks import check_times
from alphaswarm_rl.market.unit_factor import unit_factor

#: Share of the diagonal in the covariance of `turbulence`. Without it a near-singular matrix makes huge values.
SHRINKAGE = 0.1


def add_indicators(panel: MarketPanel, names: Sequence[str]) -> MarketPanel:
    """The panel with these indicators as features.

    An indicator at bar t uses the asset's tradable bars up to t. At a gap its last value is repeated, in the units of
    that bar where it is a price; before it is defined its neutral value stands (50 for rsi, the close for averages and
    bands, 0 for all others), and `panel.feature_from` says until when.
    """
    check_features(names)
    parsed = [parse_indicator(name) for name in names]
    neutral: dict[str, float | Array] = {
        named.name: panel.close if named.neutral == "close" else named.neutral for named in parsed
    }
    return panel.with_features({named.name: _carried(panel, named) for named in parsed}, neutral=neutral)


def _carried(panel: MarketPanel, named: IndicatorName) -> Array:
    """An indicator whose price, over a gap with a split in it, is that of the new units; otherwise as it is."""
    values = indicator(panel, named)
    if not named.in_price or panel.splits is None:
        return values
    units = unit_factor(panel)
    carried, first = forward(values * units, 0.0)
    gaps = np.isnan(values) & (np.arange(panel.num_bars)[:, None] >= first)
    return np.where(gaps, carried / units, values)


def indicator(panel: MarketPanel, name: str | IndicatorName) -> Array:
    """One indicator at the close of every bar, (T, A) float64; NaN at gaps and until it is defined.

    Prices are compared in the units of the first bar, and an indicator that is a price is given in those of its own
    bar, beside which the close stands.
    """
    named = parse_indicator(name) if isinstance(name, str) else name
    units = unit_factor(panel)
    columns = []
    for column in named.needs:
        values: Array | None = getattr(panel, column)
        if values is None:
            raise DataError(
                f"feature {named.name!r}",
                f"it needs the column {column!r}, which the panel lacks",
                "Leave it out, or use data with that column.",
            )
        columns.append(values * units)
    present = panel.tradable
    if present.all():
        out = _compute(named, columns)
    else:
        out = np.full(present.shape, np.nan)
        for asset in range(panel.num_assets):
            rows = np.flatnonzero(present[:, asset])
            out[rows, asset] = _compute(named, [column[rows, asset : asset + 1] for column in columns])[:, 0]
    return out / units if named.in_price else out


def _compute(named: IndicatorName, columns: list[Array]) -> Array:
    if named.kind == "macd":
        return indicators.macd(columns[0])
    if named.kind in ("boll_lb", "boll_ub"):
        lower, upper = indicators.bollinger(columns[0], named.window)
        return lower if named.kind == "boll_lb" else upper
    values: Array = getattr(indicators, named.kind)(*columns, named.window)
    return values


def turbulence(panel: MarketPanel, lookback: int = 252, shrinkage: float = SHRINKAGE) -> Array:
    """How unusual the returns of bar t are, against the bars before it: a squared Mahalanobis distance.

    d_t = (r_t - m)' S^-1 (r_t - m), with m and S the mean and the covariance of the returns of the `lookback` bars
    before t, and S shrunk towards its diagonal. An asset counts at t when it is tradable at t, has a price at all those
    bars and moved in them. Known at the close of t.

    Returns:
        (T,) float64, NaN until `lookback` returns lie before t and where no asset counts.
    """
    change = bar_returns(panel)
    started = np.isnan(panel.close).sum(axis=0)
    out = np.full(panel.num_bars, np.nan)
    for bar in range(lookback + 1, panel.num_bars):
        history = change[bar - lookback : bar]
        counts = panel.tradable[bar] & (started < bar - lookback)
        counts[counts] = np.ptp(history[:, counts], axis=0) > 0
        if counts.any():
            history = history[:, counts]
            centre = history.mean(axis=0)
            spread = sample_covariance(history - centre)
            spread[~np.eye(len(centre), dtype=bool)] *= 1.0 - shrinkage
            distance = change[bar, counts] - centre
            out[bar] = distance @ np.linalg.solve(spread, distance)
    return out


def vix_join(panel: MarketPanel, timestamps: ArrayLike, values: ArrayLike) -> Array:
    """A series from elsewhere, such as the daily close of the VIX, as it was known at the close of each bar.

    A value labelled s with bars of length L is known at s + L, as the panel's own bars are. The newest value known by
    then is taken, so an hourly bar never sees the close of its own day.

    Args:
        panel: The bars.
        timestamps: Labels of the series, strictly increasing, UTC.
        values: Its values; NaN is no value.

    Returns:
        (T,) float64, NaN before the first known value.
    """
    labels = np.asarray(timestamps, dtype="datetime64[ns]")
    series = np.asarray(values, dtype=np.float64)
    if labels.shape != series.shape or len(labels) < 2:
        raise DataError(
            "the joined series", f"it has {len(labels)} moments and {len(series)} values", "Give at least 2 of each."
        )
    check_times(labels, lambda row: f"the joined series, row {row}")
    known = ~np.isnan(series)
    when = known_at(labels, bar_seconds(labels), "open")[known]
    newest = np.searchsorted(when, panel.known_at, side="right") - 1
    return np.where(newest >= 0, np.append(series[known], np.nan)[newest], np.nan)

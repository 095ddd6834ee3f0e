"""Features of the whole market: turbulence, trailing covariance, and series that come from elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np

from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.core.types import Array
from alphaswarm_rl.market.calendar import bar_seconds, known_at
from alphaswarm_rl.market.covariance import bar_returns, sample_covariance
from alphaswarm_rl.market.covariance import covariance as covariance
from alphaswarm_rl.market.panel import MarketPanel
from alphaswarm_rl.market.panel_checks import check_times

#: Share of the diagonal in the covariance of `turbulence`. Without it a near-singular matrix makes huge values.
SHRINKAGE = 0.1


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


def vix_join(panel: MarketPanel, timestamps: Any, values: Any) -> Array:
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

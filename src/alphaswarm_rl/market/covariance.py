"""Returns of bars, and their trailing covariance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from alphaswarm_rl.core.types import Array
from alphaswarm_rl.core.view import Panel


def bar_returns(panel: Panel, since: int = 0) -> Array:
    """Simple returns from bar t - 1 to bar t, (T - since, A); NaN at the first bar and until an asset has two prices.

    Where prices do not contain splits and dividends, they are counted here: what a holder has at t over t - 1.

    Args:
        panel: The bars.
        since: The first bar whose returns are wanted.
    """
    first = max(since, 1)
    worth = panel.close[first:]
    splits = 1.0 if panel.splits is None else panel.splits[first:]
    if not panel.adjusted and panel.splits is not None:
        worth = worth * splits
    if not panel.adjusted and panel.dividends is not None:
        worth = worth + panel.dividends[first:] * splits
    out = np.full((panel.num_bars - since, panel.num_assets), np.nan)
    out[first - since :] = worth / panel.close[first - 1 : -1] - 1.0
    return out


def covariance(panel: Panel, lookback: int = 252, at: Sequence[int] | Array | None = None) -> Array:
    """The sample covariance of the last `lookback` one-bar returns, known at the close of t.

    Args:
        panel: The bars.
        lookback: How many returns.
        at: Indices of the bars at which it is wanted; None is all of them.

    Returns:
        (len(at), A, A) float64; 0 for an asset that has no price at all those bars, and before there are enough bars.
    """
    change = bar_returns(panel)
    started = np.isnan(panel.close).sum(axis=0)
    bars = np.arange(panel.num_bars) if at is None else np.asarray(at, dtype=np.int64)
    out = np.zeros((len(bars), panel.num_assets, panel.num_assets))
    for row, bar in enumerate(bars):
        counts = np.flatnonzero(started <= bar - lookback)
        if bar >= lookback and len(counts):
            history = change[bar - lookback + 1 : bar + 1, counts]
            out[row][np.ix_(counts, counts)] = sample_covariance(history - history.mean(axis=0))
    return out


def sample_covariance(centred: Array) -> Array:
    """The covariance of rows whose mean is 0 in every column."""
    # The copy gives every window the same layout in memory, and so the same bits wherever the panel was cut.
    centred = np.ascontiguousarray(centred)
    result: Array = centred.T @ centred / (len(centred) - 1)
    return result

"""What was held and what it cost: turnover, exposure, and how much of the profit costs took.

Weights are of an account's value, (periods, assets), shorts below 0; what they leave of 1 is cash.
"""

from __future__ import annotations

import math

import numpy as np

from alphaswarm_rl.core.errors import StatisticsError
from alphaswarm_rl.core.types import Array


def turnover(weights: Array, asset_returns: Array | None = None) -> Array:
    """The weight that was traded in each period but the first, bought and sold; half of it is the one-way turnover.

    Args:
        weights: The weights, (periods, assets), after trading.
        asset_returns: The assets' returns from each period to the next, (periods - 1, assets): what prices alone did to
            weights is not traded. None takes every change of a weight as a trade.

    Returns:
        One number for each period but the first. It is NaN where the account lost everything meanwhile.

    Raises:
        StatisticsError: Weights are not a table, or the returns are of another shape.
    """
    if weights.ndim != 2:
        raise StatisticsError("weights", f"they have the shape {weights.shape}", "Give (periods, assets).")
    before = weights[:-1]
    if asset_returns is not None:
        if asset_returns.shape != before.shape:
            why = f"they have the shape {asset_returns.shape}, and {before.shape} is asked for"
            raise StatisticsError("the assets' returns", why, "Give those from each period to the next.")
        growth = 1.0 + (before * asset_returns).sum(axis=1, keepdims=True)
        left = growth > 0
        before = np.where(left, before * (1.0 + asset_returns) / np.where(left, growth, 1.0), np.nan)
    return np.asarray(np.abs(weights[1:] - before).sum(axis=1))


def exposure(weights: Array) -> float:
    """The mean of what was held, longs and shorts added up: 1 is all of the account's value; NaN without a period."""
    return float(np.abs(weights).sum(axis=1).mean()) if len(weights) else math.nan


def cost_share(profit: float, costs: float) -> float:
    """The share of the profit before costs that costs took; NaN where there was no such profit.

    Args:
        profit: What was earned after costs, in money.
        costs: What trading cost.
    """
    before = profit + costs
    return costs / before if before > 0 else math.nan

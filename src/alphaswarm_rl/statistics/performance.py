"""How an account did: measures of an equity curve.

Curves start with the initial value. Returns are simple and per period. Standard deviations have `ddof=1`; the downside
deviation of the Sortino ratio is over all periods. Whatever is undefined, such as a ratio to no risk, is 0.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

#: A deviation below this is rounding, not risk.
_NEGLIGIBLE = 1e-12
#: Growth beyond e to this power is cut off, so that no number and no mean of numbers overflows.
_LARGEST_EXPONENT = 690.0


def returns_of(values: Array) -> Array:
    """The return of each period; 0 where there was nothing left to earn with."""
    before, after = values[:-1], values[1:]
    alive = before > 0
    return np.where(alive, after / np.where(alive, before, 1.0) - 1.0, 0.0)


def total_return(values: Array) -> float:
    """The whole change, relative to the initial value."""
    return float(values[-1] / values[0] - 1.0)


def annual_return(values: Array, periods_per_year: float) -> float:
    """The constant yearly return that leads to the same end; -1 where nothing is left."""
    periods = len(values) - 1
    if periods < 1:
        return 0.0
    growth = values[-1] / values[0]
    if growth <= 0:
        return -1.0
    return math.expm1(min(math.log(growth) * periods_per_year / periods, _LARGEST_EXPONENT))


def volatility(returns: Array, periods_per_year: float) -> float:
    """The yearly standard deviation; 0 with fewer than two periods."""
    return 0.0 if len(returns) < 2 else float(returns.std(ddof=1)) * math.sqrt(periods_per_year)


def sharpe(returns: Array, periods_per_year: float) -> float:
    """The yearly ratio of mean and standard deviation."""
    if len(returns) < 2:
        return 0.0
    return _ratio(float(returns.mean()), float(returns.std(ddof=1)), periods_per_year)


def sortino(returns: Array, periods_per_year: float) -> float:
    """The yearly ratio of mean and downside deviation."""
    if len(returns) < 1:
        return 0.0
    downside = math.sqrt(float((np.minimum(returns, 0.0) ** 2).mean()))
    return _ratio(float(returns.mean()), downside, periods_per_year)


def max_drawdown(values: Array) -> float:
    """The deepest fall below an earlier value, relative to it: 0 or less."""
    return float((values / np.maximum.accumulate(values) - 1.0).min())


def performance(values: Array, periods_per_year: float) -> dict[str, float]:
    """Every measure of an equity curve, by name.

    Args:
        values: The account's values, the initial one first; that one is above 0.
        periods_per_year: Periods in a year.
    """
    values = np.asarray(values, dtype=np.float64)
    returns = returns_of(values)
    return {
        "total_return": total_return(values),
        "annual_return": annual_return(values, periods_per_year),
        "sharpe": sharpe(returns, periods_per_year),
        "sortino": sortino(returns, periods_per_year),
        "max_drawdown": max_drawdown(values),
        "volatility": volatility(returns, periods_per_year),
        "final_value": float(values[-1]),
    }


def _ratio(mean: float, deviation: float, periods_per_year: float) -> float:
    return 0.0 if deviation < _NEGLIGIBLE else math.sqrt(periods_per_year) * mean / deviation

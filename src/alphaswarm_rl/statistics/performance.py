"""How a policy did: measures of its episodes, and of the account where it trades.

Equity curves start with the initial value. Returns of an account are simple and per period. Their standard deviations
have `ddof=1`, that of episodes' rewards `ddof=0`; the downside deviation of the Sortino ratio is over all periods.
Whatever is undefined, such as a ratio to no risk, is 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from alphaswarm_rl.core.types import Array

#: What is measured of episodes, by the names that rows, events and answers have; the first ones are made of rewards.
REWARD_MEASURES = ("mean_reward", "std_reward", "min_reward", "max_reward", "total_reward")
EPISODE_MEASURES = (*REWARD_MEASURES, "mean_length")
#: What is measured of an account beside them.
ACCOUNT_MEASURES = (
    "total_return",
    "annual_return",
    "volatility",
    "sharpe",
    "sortino",
    "max_drawdown",
    "final_value",
    "turnover",
    "cost",
)
#: A deviation below this is rounding, not risk.
_NEGLIGIBLE = 1e-12
#: Growth beyond e to this power is cut off, so that no number and no mean of numbers overflows.
_LARGEST_EXPONENT = 690.0


def episode_measures(returns: Array | Sequence[float], lengths: Array | Sequence[int]) -> dict[str, float]:
    """Every measure of episodes, by name.

    Args:
        returns: The sum of rewards of each episode.
        lengths: The steps of each.
    """
    return {**reward_measures(returns), "mean_length": float(np.mean(lengths))}


def reward_measures(returns: Array | Sequence[float]) -> dict[str, float]:
    """Every measure of episodes' returns, by name."""
    rewards = np.asarray(returns)
    return {
        "mean_reward": float(rewards.mean()),
        "std_reward": float(rewards.std()),
        "min_reward": float(rewards.min()),
        "max_reward": float(rewards.max()),
        "total_reward": float(rewards.sum()),
    }


def mean_measures(episodes: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each measure over episodes; nothing where there are none."""
    names = episodes[0] if episodes else ()
    return {name: float(np.mean([measures[name] for measures in episodes])) for name in names}


def account_measures(values: Array, turnover: Array, costs: Array, periods_per_year: float) -> dict[str, float]:
    """Every measure of an account in one episode, by name.

    Args:
        values: Its values, the initial one first; that one is above 0.
        turnover: Money traded over the account's value, per step.
        costs: Money paid, per step.
        periods_per_year: Steps in a year.
    """
    return {
        **performance(values, periods_per_year),
        "turnover": float(turnover.mean()),
        "cost": float(costs.sum()) / float(values[0]),
    }


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
    """The yearly ratio of mean and standard deviation; the risk-free rate is 0."""
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


def _ratio(mean: float, deviation: float, periods_per_year: float) -> float:
    return 0.0 if deviation < _NEGLIGIBLE else math.sqrt(periods_per_year) * mean / deviation

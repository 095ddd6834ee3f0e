"""How a policy did: measures of its episodes, and of the account where it trades.

Equity curves start with the initial value. Returns of an account are simple and per period. Their standard deviations
have `ddof=1`, that of episodes' rewards `ddof=0`; the downside deviation of the Sortino ratio is over all periods.
Whatever is undefined, such as a ratio to no risk, is NaN, and `undefined_reasons` says why: a 0 would rank
above a loss. Measures of returns and of curves take many at once: periods are the last axis, the others stay.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

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
#: Periods that a measure needs, where it needs some.
_LEAST_PERIODS = {"annual_return": 1, "sortino": 1, "sharpe": 2, "volatility": 2}
#: Why a measure is undefined that has as many.
_REASONS = {"sharpe": "the returns do not vary", "sortino": "no return is a loss"}
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
    """The mean of each measure over episodes, undefined where it is in one of them; nothing where there are none."""
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


def undefined_reasons(episodes: Sequence[Mapping[str, float]], lengths: Sequence[int]) -> dict[str, str]:
    """Why measures of accounts are undefined, by their name; those that are defined in every episode are left out.

    Args:
        episodes: The measures of each episode.
        lengths: The periods of each.
    """
    found: dict[str, str] = {}
    for name in episodes[0] if episodes else ():
        bad = [periods for measures, periods in zip(episodes, lengths, strict=True) if math.isnan(measures[name])]
        if bad:
            where = "" if len(episodes) == 1 else f"in {len(bad)} of {len(episodes)} episodes "
            found[name] = where + _why_undefined(name, bad[0])
    return found


def _why_undefined(name: str, periods: int) -> str:
    least = _LEAST_PERIODS.get(name, 0)
    if periods < least:
        return f"it needs {least} periods or more, and there are {periods}"
    return _REASONS.get(name, "the account's values are not finite")


def performance(values: Array | Sequence[float], periods_per_year: float) -> dict[str, float]:
    """Every measure of an equity curve, by name; NaN where it is undefined.

    Args:
        values: The account's values, the initial one first; that one is above 0.
        periods_per_year: Periods in a year.
    """
    values = np.asarray(values, dtype=np.float64)
    returns = returns_of(values)
    return {
        "total_return": total_return(values),
        "annual_return": annual_return(values, periods_per_year),
        "sharpe": float(sharpe(returns, periods_per_year)),
        "sortino": float(sortino(returns, periods_per_year)),
        "max_drawdown": float(max_drawdown(values)),
        "volatility": float(volatility(returns, periods_per_year)),
        "final_value": float(values[-1]),
    }


def returns_of(values: Array) -> Array:
    """The return of each period; 0 where there was nothing left to earn with."""
    before, after = values[..., :-1], values[..., 1:]
    alive = before > 0
    return np.where(alive, after / np.where(alive, before, 1.0) - 1.0, 0.0)


def total_return(values: Array) -> float:
    """The whole change, relative to the initial value."""
    return float(values[-1] / values[0] - 1.0)


def annual_return(values: Array, periods_per_year: float) -> float:
    """The constant yearly return that leads to the same end; -1 where nothing is left, NaN without a period."""
    periods = len(values) - 1
    if periods < 1:
        return math.nan
    growth = values[-1] / values[0]
    if growth <= 0:
        return -1.0
    return math.expm1(min(math.log(growth) * periods_per_year / periods, _LARGEST_EXPONENT))


def volatility(returns: Array, periods_per_year: float) -> Array:
    """The yearly standard deviation; NaN with fewer than two periods."""
    if returns.shape[-1] < 2:
        return np.full(returns.shape[:-1], np.nan)
    return np.asarray(returns.std(axis=-1, ddof=1) * math.sqrt(periods_per_year))


def sharpe(returns: Array, periods_per_year: float) -> Array:
    """The yearly ratio of mean and standard deviation; the risk-free rate is 0. NaN where the returns do not vary."""
    if returns.shape[-1] < 2:
        return np.full(returns.shape[:-1], np.nan)
    return _ratio(returns.mean(axis=-1), returns.std(axis=-1, ddof=1), periods_per_year)


def sortino(returns: Array, periods_per_year: float) -> Array:
    """The yearly ratio of mean and downside deviation; NaN where no return is a loss."""
    if returns.shape[-1] < 1:
        return np.full(returns.shape[:-1], np.nan)
    downside = np.sqrt((np.minimum(returns, 0.0) ** 2).mean(axis=-1))
    return _ratio(returns.mean(axis=-1), downside, periods_per_year)


def max_drawdown(values: Array) -> Array:
    """The deepest fall below an earlier value, relative to it: 0 or less."""
    return np.asarray((values / np.maximum.accumulate(values, axis=-1) - 1.0).min(axis=-1))


def mean_return(returns: Array, periods_per_year: float) -> Array:
    """The yearly mean of returns, not compounded."""
    return np.asarray(returns.mean(axis=-1) * periods_per_year)


def curve_of(returns: Array) -> Array:
    """The curve of returns, which starts with 1."""
    return np.concatenate([np.ones((*returns.shape[:-1], 1)), np.cumprod(1.0 + returns, axis=-1)], axis=-1)


def compounded(returns: Array, together: int) -> Array:
    """The returns of so many neighbouring periods together, each; the last of fewer where they do not fit."""
    return np.asarray(np.multiply.reduceat(1.0 + returns, np.arange(0, len(returns), together)) - 1.0)


def _drawdown_of_returns(returns: Array, periods_per_year: float) -> Array:
    return max_drawdown(curve_of(returns))


def _growth_of_returns(returns: Array, periods_per_year: float) -> Array:
    return np.asarray(np.prod(1.0 + returns, axis=-1) - 1.0)


#: Measures of returns, many at once: what intervals can be had of, see `statistics.bootstrap`.
RETURN_MEASURES: dict[str, Callable[[Array, float], Array]] = {
    "total_return": _growth_of_returns,
    "mean_return": mean_return,
    "volatility": volatility,
    "sharpe": sharpe,
    "sortino": sortino,
    "max_drawdown": _drawdown_of_returns,
}


def _ratio(mean: Array, deviation: Array, periods_per_year: float) -> Array:
    defined = deviation >= _NEGLIGIBLE
    return np.where(defined, math.sqrt(periods_per_year) * mean / np.where(defined, deviation, 1.0), np.nan)

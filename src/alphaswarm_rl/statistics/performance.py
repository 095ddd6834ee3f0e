"""How a policy did: measures of its episodes, and of the account where it trades.

Equity curves start with the initial value. Returns of an account are simple and per period. Their standard deviations
have `ddof=1`, that of episodes' rewards `ddof=0`; the downside deviation of the Sortino ratio is over all periods.
Whatever is undefined, such as a ratio to no risk, is NaN, and `undefined_reasons` says why: a 0 would rank
above a loss. Measures of returns and of curves take many at once: periods are the last axis, the others stay.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

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
_LEAST_PERIODS = {
    "annual_return": 1,
    "calmar": 1,
    "conditional_value_at_risk": 1,
    "downside_deviation": 1,
    "hit_rate": 1,
    "mean_return": 1,
    "sortino": 1,
    "tail_ratio": 1,
    "value_at_risk": 1,
    "alpha": 2,
    "beta": 2,
    "sharpe": 2,
    "volatility": 2,
}
#: Why a measure is undefined that has as many.
_REASONS = {
    "alpha": "the benchmark's returns do not vary",
    "beta": "the benchmark's returns do not vary",
    "calmar": "there was no drawdown",
    "hit_rate": "every return is 0",
    "sharpe": "the returns do not vary",
    "sortino": "no return is a loss",
    "tail_ratio": "the loss that it divides by is 0",
}
#: A deviation below this is rounding, not risk.
NEGLIGIBLE = 1e-12
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
        bad = [pair for pair in zip(episodes, lengths, strict=True) if math.isnan(pair[0][name])]
        if bad:
            where = "" if len(episodes) == 1 else f"in {len(bad)} of {len(episodes)} episodes "
            found[name] = where + _why_undefined(name, *bad[0])
    return found


def _why_undefined(name: str, measures: Mapping[str, float], periods: int) -> str:
    if math.isnan(measures.get("max_drawdown", 0.0)):  # there is always one, of numbers
        return "the account's values are not finite"
    least = _LEAST_PERIODS.get(name, 0)
    if periods < least:
        return f"it needs {least} periods or more, and there are {periods}"
    return _REASONS.get(name, "its numbers are not finite")


def performance(values: Array | Sequence[float], periods_per_year: float) -> dict[str, float]:
    """Every measure of an equity curve, by name; NaN where it is undefined.

    Args:
        values: The account's values, the initial one first; that one is above 0.
        periods_per_year: Periods in a year.
    """
    values = np.asarray(values, dtype=np.float64)
    returns = returns_of(values)
    return {
        "total_return": float(total_return(values)),
        "annual_return": float(annual_return(values, periods_per_year)),
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


def total_return(values: Array) -> Array:
    """The whole change, relative to the initial value."""
    return np.asarray(values[..., -1] / values[..., 0] - 1.0)


def annual_return(values: Array, periods_per_year: float) -> Array:
    """The constant yearly return that leads to the same end (CAGR); -1 where nothing is left, NaN without a period."""
    periods = values.shape[-1] - 1
    if periods < 1:
        return np.full(values.shape[:-1], np.nan)
    growth = values[..., -1] / values[..., 0]
    ruined = growth <= 0
    exponent = np.log(np.where(ruined, 1.0, growth)) * periods_per_year / periods
    return np.where(ruined, -1.0, np.expm1(np.minimum(exponent, _LARGEST_EXPONENT)))


def volatility(returns: Array, periods_per_year: float) -> Array:
    """The yearly standard deviation; NaN with fewer than two periods."""
    if returns.shape[-1] < 2:
        return np.full(returns.shape[:-1], np.nan)
    return np.asarray(returns.std(axis=-1, ddof=1) * math.sqrt(periods_per_year))


def sharpe(returns: Array, periods_per_year: float, risk_free: float | Array = 0.0) -> Array:
    """The yearly ratio of mean and standard deviation of what was earned above the risk-free rate.

    Args:
        returns: The returns.
        periods_per_year: Periods in a year; 1 gives the ratio per period.
        risk_free: The risk-free rate per period, not per year: one number, or one for each period.

    Returns:
        The ratio; NaN where returns do not vary.
    """
    if returns.shape[-1] < 2:
        return np.full(returns.shape[:-1], np.nan)
    excess = returns - risk_free
    return ratio(math.sqrt(periods_per_year) * excess.mean(axis=-1), excess.std(axis=-1, ddof=1))


def sortino(returns: Array, periods_per_year: float, required: float | Array = 0.0) -> Array:
    """The yearly ratio of mean and downside deviation, both against a required return; NaN where none falls short.

    Args:
        returns: The returns.
        periods_per_year: Periods in a year.
        required: The return per period that a shortfall is measured from: one number, or one for each period.
    """
    if returns.shape[-1] < 1:
        return np.full(returns.shape[:-1], np.nan)
    mean = (returns - required).mean(axis=-1)
    return ratio(math.sqrt(periods_per_year) * mean, downside_deviation(returns, 1.0, required))


def downside_deviation(returns: Array, periods_per_year: float, required: float | Array = 0.0) -> Array:
    """The yearly root of the mean squared shortfall from a required return, over all periods; NaN without a period."""
    if returns.shape[-1] < 1:
        return np.full(returns.shape[:-1], np.nan)
    shortfall = np.minimum(returns - required, 0.0)
    return np.asarray(np.sqrt((shortfall**2).mean(axis=-1)) * math.sqrt(periods_per_year))


def calmar(returns: Array, periods_per_year: float) -> Array:
    """The yearly return over the depth of the deepest drawdown; NaN where there was none."""
    values = curve_of(returns)
    return ratio(annual_return(values, periods_per_year), -max_drawdown(values))


def max_drawdown(values: Array) -> Array:
    """The deepest fall below an earlier value, relative to it: 0 or less."""
    return np.asarray((values / np.maximum.accumulate(values, axis=-1) - 1.0).min(axis=-1))


def mean_return(returns: Array, periods_per_year: float) -> Array:
    """The yearly mean of returns, not compounded; NaN without a period."""
    if returns.shape[-1] < 1:
        return np.full(returns.shape[:-1], np.nan)
    return np.asarray(returns.mean(axis=-1) * periods_per_year)


def curve_of(returns: Array) -> Array:
    """The curve of returns, which starts with 1."""
    return np.concatenate([np.ones((*returns.shape[:-1], 1)), np.cumprod(1.0 + returns, axis=-1)], axis=-1)


def compounded(returns: Array, together: int) -> Array:
    """The returns of so many neighbouring periods together, each; the last of fewer where they do not fit."""
    return np.asarray(np.multiply.reduceat(1.0 + returns, np.arange(0, len(returns), together)) - 1.0)


def ratio(number: Array, risk: Array) -> Array:
    """A number over its risk; NaN where there is none: the ratio to no risk is undefined."""
    defined = risk >= NEGLIGIBLE
    return np.where(defined, number / np.where(defined, risk, 1.0), np.nan)


def _of_curve(measure: Callable[[Array], Array]) -> Measure:
    """A measure of returns, by a measure of their curve that no year matters to."""
    return lambda returns, periods_per_year: measure(curve_of(returns))


#: A measure of returns, many at once, for so many periods in a year.
Measure: TypeAlias = Callable[[Array, float], Array]

#: Measures of returns that models are judged by, and whose intervals are to be had; see `statistics.bootstrap`.
RETURN_MEASURES: dict[str, Measure] = {
    "total_return": _of_curve(total_return),
    "mean_return": mean_return,
    "volatility": volatility,
    "sharpe": sharpe,
    "sortino": sortino,
    "max_drawdown": _of_curve(max_drawdown),
}

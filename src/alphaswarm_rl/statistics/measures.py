"""Measures of returns beyond those that every evaluation has: losses in the tail, a benchmark, and moving windows.

Returns are simple and per period, the last axis; the others stay. A value at risk is a return, so that a loss is below
0, and levels are shares of periods. What is undefined is NaN, and `performance.undefined_reasons` says why. So is every
measure of returns that are not finite: their order, or a share of them, would be a number that means nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from alphaswarm_rl.core.errors import StatisticsError
from alphaswarm_rl.core.types import Array
from alphaswarm_rl.statistics.performance import (
    RETURN_MEASURES,
    Measure,
    annual_return,
    calmar,
    curve_of,
    downside_deviation,
    ratio,
    sharpe,
    sortino,
)

#: The share of periods that are the tail.
TAIL = 0.05
#: Numbers that moving windows hold at once.
_AT_ONCE = 2**20


def value_at_risk(returns: Array, level: float = TAIL) -> Array:
    """The return that this share of periods falls short of, interpolated; NaN without a period."""
    if returns.shape[-1] < 1:
        return np.full(returns.shape[:-1], np.nan)
    return _where_finite(returns, np.quantile(returns, level, axis=-1))


def conditional_value_at_risk(returns: Array, level: float = TAIL) -> Array:
    """The mean of the worst returns, this share of all and at least one; NaN without a period."""
    periods = returns.shape[-1]
    if periods < 1:
        return np.full(returns.shape[:-1], np.nan)
    worst = int((periods - 1) * level) + 1
    mean = np.partition(returns, worst - 1, axis=-1)[..., :worst].mean(axis=-1)
    return _where_finite(returns, mean)


def tail_ratio(returns: Array, level: float = TAIL) -> Array:
    """How large the best returns are beside the worst: the upper quantile over the lower; NaN where that one is 0."""
    if returns.shape[-1] < 1:
        return np.full(returns.shape[:-1], np.nan)
    low, high = np.quantile(returns, (level, 1.0 - level), axis=-1)
    return _where_finite(returns, ratio(np.abs(high), np.abs(low)))


def hit_rate(returns: Array) -> Array:
    """The share of gains among the periods that brought a gain or a loss; NaN where none did."""
    moved = (returns != 0).sum(axis=-1)
    rate = np.where(moved > 0, (returns > 0).sum(axis=-1) / np.maximum(moved, 1), np.nan)
    return _where_finite(returns, rate)


def certainty_equivalent(outcomes: Array, risk_aversion: float) -> Array:
    """The sure outcome that is worth as much as these to an investor with constant absolute risk aversion.

    Args:
        outcomes: What came out, such as returns, equally likely; the last axis.
        risk_aversion: 0 gives the mean, below 0 risk is sought.
    """
    if outcomes.shape[-1] < 1:
        return np.full(outcomes.shape[:-1], np.nan)
    if abs(risk_aversion) < 1e-12:
        return np.asarray(outcomes.mean(axis=-1))
    exponents = -risk_aversion * outcomes
    largest = exponents.max(axis=-1, keepdims=True)  # so that nothing overflows
    mean = np.log(np.exp(exponents - largest).mean(axis=-1)) + largest[..., 0]
    return np.asarray(-mean / risk_aversion)


@dataclass(frozen=True)
class MarketModel:
    """A line of least squares through returns over those of a benchmark.

    Attributes:
        alpha: The yearly return that the benchmark does not explain, not compounded; NaN where beta is.
        beta: The return that goes with one of the benchmark; NaN where the benchmark does not vary.
    """

    alpha: float
    beta: float


def market_model(
    returns: Array, benchmark: Array, periods_per_year: float, risk_free: float | Array = 0.0
) -> MarketModel:
    """Alpha and beta of returns, both above the risk-free rate of each period.

    Raises:
        StatisticsError: The benchmark has another number of periods.
    """
    aligned(returns, benchmark)
    if len(returns) < 2:
        return MarketModel(math.nan, math.nan)
    ours, theirs = returns - risk_free, benchmark - risk_free
    deviations = theirs - theirs.mean()
    spread = math.sqrt(float(deviations @ deviations) / len(returns))
    covariance = float(deviations @ (ours - ours.mean())) / len(returns)
    beta = float(ratio(ratio(np.asarray(covariance), np.asarray(spread)), np.asarray(spread)))
    return MarketModel((float(ours.mean()) - beta * float(theirs.mean())) * periods_per_year, beta)


def aligned(returns: Array, benchmark: Array) -> None:
    """Refuses a benchmark whose periods are not those of the returns."""
    if returns.ndim != 1 or benchmark.shape != returns.shape:
        raise StatisticsError(
            "the benchmark",
            f"it has the shape {benchmark.shape}, and the returns have {returns.shape}",
            "Give one return of each for every period, of the same periods.",
        )


def _of_finite(measure: Measure) -> Measure:
    """The same measure, NaN of returns that are not finite."""
    return lambda returns, periods_per_year: _where_finite(returns, measure(returns, periods_per_year))


def _where_finite(returns: Array, measured: Array) -> Array:
    return np.where(np.isfinite(returns).all(axis=-1), measured, np.nan)


_MEASURES: dict[str, Measure] = {
    **RETURN_MEASURES,
    "annual_return": lambda returns, periods_per_year: annual_return(curve_of(returns), periods_per_year),
    "calmar": calmar,
    "downside_deviation": downside_deviation,
    "value_at_risk": lambda returns, _: value_at_risk(returns),
    "conditional_value_at_risk": lambda returns, _: conditional_value_at_risk(returns),
    "tail_ratio": lambda returns, _: tail_ratio(returns),
    "hit_rate": lambda returns, _: hit_rate(returns),
}
#: Every measure of returns by name.
MEASURES: dict[str, Measure] = {name: _of_finite(measure) for name, measure in _MEASURES.items()}


def return_measures(
    returns: Array,
    periods_per_year: float,
    *,
    risk_free: float | Array = 0.0,
    benchmark: Array | None = None,
) -> dict[str, float]:
    """Every measure of one series of returns, by name; NaN where it is undefined, see `undefined_reasons`.

    Args:
        returns: The returns, (periods,).
        periods_per_year: Periods in a year.
        risk_free: The risk-free rate per period; Sharpe and Sortino ratio, alpha and beta are of what is above it.
        benchmark: Returns of the same periods to compare with; without one there is neither alpha nor beta.
    """
    found = {name: float(measure(returns, periods_per_year)) for name, measure in MEASURES.items()}
    for name, measure in (("sharpe", sharpe), ("sortino", sortino)):
        found[name] = float(_where_finite(returns, measure(returns, periods_per_year, risk_free)))
    if benchmark is not None:
        model = market_model(returns, benchmark, periods_per_year, risk_free)
        found |= {"alpha": model.alpha, "beta": model.beta}
    return found


def rolling(returns: Array, window: int, measure: Measure, periods_per_year: float) -> Array:
    """A measure of the newest periods at each period, (periods,): NaN until there are as many as the window has.

    Args:
        returns: The returns, (periods,).
        window: Periods in a window.
        measure: One of `MEASURES`, or any other of many series at once.
        periods_per_year: Periods in a year.
    """
    if window < 1:
        raise StatisticsError(f"a window of {window} periods", "it has none", "Give 1 or more.")
    found = np.full(len(returns), np.nan)
    if len(returns) < window:
        return found
    windows = np.lib.stride_tricks.sliding_window_view(returns, window)
    size = max(1, _AT_ONCE // window)
    for first in range(0, len(windows), size):
        some = windows[first : first + size]
        found[window - 1 + first : window - 1 + first + len(some)] = measure(some, periods_per_year)
    return found

"""Measures of equity curves with their bootstrap intervals: how far each could have been elsewhere by chance.

One curve is resampled in blocks of its returns, which keeps what follows on what. Where there are several, whole curves
are resampled: they are the independent ones, and a measure is the mean over them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from alphaswarm_rl.core.types import Array
from alphaswarm_rl.statistics.bootstrap import Interval, stationary_bootstrap
from alphaswarm_rl.statistics.measures import MEASURES
from alphaswarm_rl.statistics.performance import NEGLIGIBLE, Measure, returns_of

#: Enough that the ends of an interval of 95 % move by a few percent of its width from one seed to another.
RESAMPLES = 1000
#: Fewest curves, and fewest periods of a curve, that say anything about chance.
_LEAST = 2
#: What needs no year, and what is measured by the year.
_OF_CURVES = ("total_return", "max_drawdown")
_BY_YEAR = ("annual_return", "sharpe", "sortino", "volatility")

#: A measure of returns (resamples, periods), one number each.
_Measure = Callable[[Array], Array]


def curve_intervals(
    curves: Sequence[Array], periods_per_year: float | None, resamples: int = RESAMPLES
) -> dict[str, Interval]:
    """The interval of every measure, by name; a measure by the year needs to know the periods in one.

    Args:
        curves: The account's values in each episode, the initial one first; no two the same.
        periods_per_year: Periods in a year; None leaves out what is measured by the year.
        resamples: How many resamples.
    """
    measures = _measures(periods_per_year)
    returns = [returns_of(np.asarray(values, dtype=np.float64)) for values in curves]
    if len(returns) >= _LEAST:
        each = {name: np.array([measure(row[np.newaxis])[0] for row in returns]) for name, measure in measures.items()}
        return {name: _of_mean(values, resamples) for name, values in each.items() if np.isfinite(values).all()}
    if not returns or len(returns[0]) < _LEAST:
        return {}
    return {name: stationary_bootstrap(returns[0], measure, resamples=resamples) for name, measure in measures.items()}


def mean_interval(values: Sequence[float], resamples: int = RESAMPLES) -> Interval | None:
    """The interval of the mean of independent values; None with fewer than two."""
    finite = np.asarray(values, dtype=np.float64)
    return _of_mean(finite, resamples) if len(finite) >= _LEAST and np.isfinite(finite).all() else None


def periods_per_year(curves: Sequence[Array], volatility: float | None) -> float | None:
    """The periods in a year by which the volatility of curves was measured; None where they do not move.

    Args:
        curves: The account's values in each episode, the initial one first.
        volatility: The mean over them of the yearly deviation.
    """
    deviations = [float(returns_of(values).std(ddof=1)) for values in curves if len(values) > _LEAST]
    mean = math.fsum(deviations) / len(deviations) if deviations else 0.0
    return None if not volatility or mean < NEGLIGIBLE else (volatility / mean) ** 2


def _of_mean(values: Array, resamples: int) -> Interval:
    return stationary_bootstrap(values, lambda rows: rows.mean(axis=1), resamples=resamples, block_length=1.0)


def _measures(per_year: float | None) -> dict[str, _Measure]:
    def of(measure: Measure) -> _Measure:
        return lambda rows: measure(rows, per_year or 1.0)

    return {name: of(MEASURES[name]) for name in (*_OF_CURVES, *(() if per_year is None else _BY_YEAR))}

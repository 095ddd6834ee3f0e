"""The stationary bootstrap: how far a measure of a time series could have been elsewhere by chance.

Politis and Romano (1994): a resample is made of blocks of the series, joined end to end. Each block begins anywhere and
its length is geometric, so that neighbours mostly stay neighbours and every resample is stationary; the series is a
ring. The mean length is chosen by the data: Politis and White (2004), with the correction of Patton, Politis and White
(2009).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from alphaswarm_rl.core.seeding import generator
from alphaswarm_rl.core.types import Array

#: What is measured of resamples: (resamples, periods) or (resamples, periods, columns) in, one number each out.
Measure = Callable[[Array], Array]

RESAMPLES = 2000
#: Fewest periods that have an autocorrelation worth the name.
LEAST_PERIODS = 8
#: Numbers that are resampled at once.
_AT_ONCE = 2**20
#: An autocorrelation within this many standard errors, by the rule of Politis and White, is none.
_NEGLIGIBLE_ERRORS = 2.0


@dataclass(frozen=True)
class Interval:
    """A measure with its bootstrap interval.

    Attributes:
        estimate: The measure of the series itself; NaN where it is undefined.
        low: The lower end; NaN where too many resamples have no such measure.
        high: The upper end, likewise.
        block_length: The mean length of blocks.
        confidence: The share of the interval: the truth lies above `low` with (1 + confidence) / 2, by the bootstrap.
        resamples: How many there were.
        undefined: In how many of them the measure is undefined.
    """

    estimate: float
    low: float
    high: float
    block_length: float
    confidence: float
    resamples: int
    undefined: int = 0


def stationary_bootstrap(
    returns: Array,
    measure: Measure,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    block_length: float | None = None,
    confidence: float = 0.95,
) -> Interval:
    """The percentile interval of a measure over a series, by resampling it in blocks.

    A resample whose measure is undefined (NaN) counts as one below the lower end and above the upper end: an end is
    NaN as soon as such resamples could move it anywhere.

    Args:
        returns: The series, (periods,) or (periods, columns); rows stay together, which pairs the columns.
        measure: What is measured.
        resamples: How many resamples.
        seed: Seed of the resampling; the same one gives the same interval.
        block_length: Mean length of blocks, 1 or more; None lets the data choose, see `optimal_block_length`.
        confidence: The share of the interval, such as 0.95; a one-sided bound of 0.95 is an end of one of 0.9.

    Raises:
        ValueError: The series is empty or not finite, or an argument is out of range.
    """
    series = _checked(returns)
    if resamples < 1 or not 0.0 < confidence < 1.0:
        raise ValueError(f"{resamples} resamples and a confidence of {confidence}: give 1 or more, and 0 < c < 1")
    length = optimal_block_length(series) if block_length is None else float(block_length)
    if not length >= 1.0:
        raise ValueError(f"block length {length}: a block has one period or more")
    estimate = float(measure(series[np.newaxis])[0])
    at_once = max(1, _AT_ONCE // series.size)
    found = np.concatenate(
        [
            # Copied: a view of its resamples would keep them all.
            np.array(measure(series.take(rows[first : first + at_once], axis=0)))
            for rows in _resampled_rows(len(series), length, resamples, seed)
            for first in range(0, len(rows), at_once)
        ]
    )
    tail = (1.0 - confidence) / 2.0
    return Interval(
        estimate=estimate,
        low=_quantile(found, tail, undefined=-math.inf),
        high=_quantile(found, 1.0 - tail, undefined=math.inf),
        block_length=length,
        confidence=confidence,
        resamples=resamples,
        undefined=int(np.isnan(found).sum()),
    )


def bootstrap_difference(
    first: Array,
    second: Array,
    measure: Measure,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    block_length: float | None = None,
    confidence: float = 0.95,
) -> Interval:
    """The interval of `measure(first) - measure(second)`, two series of the same periods, resampled together.

    The blocks are as long as the longest that either series or their difference asks for. Arguments are those of
    `stationary_bootstrap`.
    """
    pair = np.stack([np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)], axis=1)
    if block_length is None:
        checked = _checked(pair)
        block_length = optimal_block_length(np.column_stack([checked, checked[:, 0] - checked[:, 1]]))

    def difference(rows: Array) -> Array:
        return measure(np.ascontiguousarray(rows[..., 0])) - measure(np.ascontiguousarray(rows[..., 1]))

    return stationary_bootstrap(
        pair, difference, resamples=resamples, seed=seed, block_length=block_length, confidence=confidence
    )


def optimal_block_length(returns: Array) -> float:
    """The mean block length that estimates the variance of the series' mean best; of several columns the longest.

    It is `(G / g) ** (2/3) * n ** (1/3)`, with `g` the sum of autocovariances and `G` that of their products with the
    lag, both by a flat-top window twice as wide as the first of five lags with negligible autocorrelations. It is at
    least 1, and at most the smaller of `3 * sqrt(n)` and `n / 3`.
    """
    series = _checked(returns)
    return max(_column_block_length(column) for column in series.reshape(len(series), -1).T)


def resampled_rows(periods: int, block_length: float, resamples: int, rng: np.random.Generator) -> Array:
    """Which row each period of each resample is, (resamples, periods)."""
    begins = rng.random((resamples, periods)) < 1.0 / block_length
    begins[:, 0] = True
    starts = rng.integers(periods, size=(resamples, periods))
    blocks = np.flatnonzero(begins)
    first = starts.reshape(-1)[blocks] - blocks % periods
    rows = np.repeat(first, np.diff(blocks, append=begins.size)).reshape(begins.shape)
    rows += np.arange(periods)
    # From the first row on again, behind the last.
    np.subtract(rows, periods, out=rows, where=rows >= periods)
    return rows


def _resampled_rows(periods: int, block_length: float, resamples: int, seed: int) -> Iterator[Array]:
    rng = generator(seed, "stationary_bootstrap")
    at_once = max(1, _AT_ONCE // periods)
    sizes = [min(at_once, resamples - done) for done in range(0, resamples, at_once)]
    return (resampled_rows(periods, block_length, size, rng) for size in sizes)


def _quantile(found: Array, share: float, *, undefined: float) -> float:
    """A quantile; NaN where what is undefined reaches it."""
    ranked = np.sort(np.where(np.isnan(found), undefined, found))
    # By hand: between a number and infinity NumPy's interpolation gives NaN or infinity, by chance.
    place = share * (len(ranked) - 1)
    below, above = ranked[math.floor(place)], ranked[math.ceil(place)]
    if not (math.isfinite(below) and math.isfinite(above)):
        return math.nan
    return float(below + (above - below) * (place - math.floor(place)))


def _column_block_length(column: Array) -> float:
    periods = len(column)
    deviations = column - column.mean()
    variance = float(deviations @ deviations) / periods
    # What differs by rounding alone has no autocorrelation.
    if periods < LEAST_PERIODS or variance <= (1e-12 * max(float(np.abs(column).max()), 1e-300)) ** 2:
        return 1.0
    run = max(5, math.ceil(math.log10(periods)))
    widest = min(math.ceil(math.sqrt(periods)) + run, periods - 1)
    covariances = np.array([float(deviations[lag:] @ deviations[: periods - lag]) for lag in range(widest + 1)])
    covariances /= periods
    width = _window_width(covariances / variance, run, periods)
    lags = np.arange(1, width + 1)
    window = np.minimum(1.0, 2.0 * (1.0 - lags / width))
    weighted = 2.0 * window * covariances[1 : width + 1]
    spectrum, slope = variance + float(weighted.sum()), float((weighted * lags).sum())
    longest = math.ceil(min(3.0 * math.sqrt(periods), periods / 3.0))
    if spectrum == 0.0:
        return float(longest)
    length = math.cbrt((slope / spectrum) ** 2 * periods)
    return min(max(length, 1.0), float(longest))


def _window_width(correlations: Array, run: int, periods: int) -> int:
    """Twice the first lag of a whole run of negligible autocorrelations; the widest where there is no such run."""
    widest = len(correlations) - 1
    negligible = np.abs(correlations) < _NEGLIGIBLE_ERRORS * math.sqrt(math.log10(periods) / periods)
    first = next((lag for lag in range(1, widest - run + 2) if negligible[lag : lag + run].all()), None)
    return widest if first is None else min(2 * first, widest)


def _checked(returns: Array) -> Array:
    series = np.asarray(returns, dtype=np.float64)
    if series.ndim not in (1, 2) or series.size == 0:
        raise ValueError(f"a series of shape {series.shape}: it needs (periods,) or (periods, columns)")
    if not np.isfinite(series).all():
        raise ValueError("the series has values that are not finite")
    return series

"""Technical indicators: causal formulas over bars without gaps.

Every function takes arrays (T, A), one row per bar, and returns (T, A) with the value known at the close of each bar,
NaN until it is defined. They agree with stockstats wherever that library's value is the one its name promises. It
differs in two places, on purpose: with fewer bars than its window stockstats gives the formula over what there is (a
"30-bar mean" of one bar), here the value is not defined yet; and its first RSI is 50, here it is not defined.

Exponential means are weighted means of all bars so far, with weights that fall by a constant factor and sum to one.
Sums over windows add elementwise in one order, so that a value does not depend on where an array was cut.
"""

from __future__ import annotations

import numpy as np

from alphaswarm_rl.core.types import Array

_CCI_SCALE = 0.015


def rolling_mean(values: Array, window: int) -> Array:
    """The mean of the last `window` bars."""
    return _rolling_sum(values, window) / window


def rolling_std(values: Array, window: int) -> Array:
    """The sample standard deviation of the last `window` bars."""
    centre = rolling_mean(values, window)
    out = np.full(values.shape, np.nan)
    total = np.zeros_like(values[window - 1 :])
    for lag in range(window):
        total += (_lagged(values, lag, window) - centre[window - 1 :]) ** 2
    out[window - 1 :] = np.sqrt(total / (window - 1))
    return out


def exponential_mean(values: Array, alpha: float) -> Array:
    """The weighted mean of all bars so far, weights (1 - alpha)**age."""
    import pandas as pd

    return np.array(pd.DataFrame(values).ewm(alpha=alpha, adjust=True).mean().to_numpy())


def sma(close: Array, window: int) -> Array:
    """The simple moving average of the close."""
    return rolling_mean(close, window)


def macd(close: Array, fast: int = 12, slow: int = 26) -> Array:
    """The MACD line: exponential mean of span `fast` minus the one of span `slow`; defined from bar `slow` on."""
    line = exponential_mean(close, 2 / (fast + 1)) - exponential_mean(close, 2 / (slow + 1))
    return _from(line, slow - 1)


def bollinger(close: Array, window: int = 20, width: float = 2.0) -> tuple[Array, Array]:
    """The lower and the upper Bollinger band: the mean minus and plus `width` standard deviations."""
    centre, deviation = rolling_mean(close, window), rolling_std(close, window)
    return centre - width * deviation, centre + width * deviation


def rsi(close: Array, window: int = 14) -> Array:
    """The relative strength index, 0 to 100: rises over all changes, both in Wilder's mean; 50 without a change."""
    change = _change(close)
    up = exponential_mean(np.maximum(change, 0.0), 1 / window)
    down = exponential_mean(np.maximum(-change, 0.0), 1 / window)
    return _from(100.0 * ratio(up, up + down, otherwise=0.5), window)


def cci(high: Array, low: Array, close: Array, window: int = 14) -> Array:
    """The commodity channel index: distance of the typical price from its mean, in 0.015 mean absolute deviations."""
    typical = (close + high + low) / 3.0
    centre = rolling_mean(typical, window)
    deviation = np.zeros_like(typical[window - 1 :])
    for lag in range(window):
        deviation += np.abs(_lagged(typical, lag, window) - centre[window - 1 :])
    distance = typical[window - 1 :] - centre[window - 1 :]
    out = np.full(typical.shape, np.nan)
    out[window - 1 :] = ratio(distance, _CCI_SCALE * deviation / window, otherwise=0.0)
    return out


def dx(high: Array, low: Array, window: int = 14) -> Array:
    """The directional movement index, 0 to 100: how one-sided the moves of highs and lows are.

    Both directional indicators are divided by the same average range, which therefore falls out of it.
    """
    rise, fall = _change(high), -_change(low)
    plus = exponential_mean(np.where((rise > 0) & (rise > fall), rise, 0.0), 1 / window)
    minus = exponential_mean(np.where((fall > 0) & (fall > rise), fall, 0.0), 1 / window)
    return _from(100.0 * ratio(np.abs(plus - minus), plus + minus, otherwise=0.0), window)


def atr(high: Array, low: Array, close: Array, window: int = 14) -> Array:
    """The average true range in units of price, in Wilder's mean."""
    before = np.concatenate([close[:1], close[:-1]])
    true_range = np.maximum(high - low, np.maximum(np.abs(high - before), np.abs(low - before)))
    return _from(exponential_mean(true_range, 1 / window), window - 1)


def returns(close: Array, window: int = 1) -> Array:
    """The simple return over the last `window` bars."""
    out = np.full(close.shape, np.nan)
    out[window:] = close[window:] / close[:-window] - 1.0
    return out


def volatility(close: Array, window: int = 20) -> Array:
    """The sample standard deviation of the last `window` one-bar returns, not annualised."""
    out = np.full(close.shape, np.nan)
    if len(close) > window:
        out[1:] = rolling_std(returns(close)[1:], window)
    return out


def _rolling_sum(values: Array, window: int) -> Array:
    out = np.full(values.shape, np.nan)
    total = np.zeros_like(values[window - 1 :])
    for lag in reversed(range(window)):
        total += _lagged(values, lag, window)
    out[window - 1 :] = total
    return out


def _lagged(values: Array, lag: int, window: int) -> Array:
    """The bars `lag` before each bar that has a whole window."""
    if len(values) < window:
        return values[:0]
    return values[window - 1 - lag : len(values) - lag]


def _change(values: Array) -> Array:
    return np.concatenate([np.zeros_like(values[:1]), np.diff(values, axis=0)])


def ratio(over: Array, under: Array, *, otherwise: float) -> Array:
    """One over the other; `otherwise` where the other is 0."""
    out: Array = np.full(over.shape, otherwise)
    np.divide(over, under, out=out, where=under != 0)
    return out


def _from(values: Array, first: int) -> Array:
    values[:first] = np.nan
    return values

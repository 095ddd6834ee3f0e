"""The NumPy backend: arrays on the CPU.

Reads of table rows are Numba loops that copy and cast in one go: they move most of the bytes of a step. Tables (T, C)
are C-contiguous; `bar` (n,) holds the row that each environment stands at.
"""

from __future__ import annotations

import numpy as np

from alphaswarm_rl.arrays.backend import NUMPY_ARRAYS
from alphaswarm_rl.arrays.jit import AHEAD, njit, prefetch_row
from alphaswarm_rl.core.types import Array


@njit(cache=True)
def _take_rows(table, bar, out):
    """Writes row `bar[i]` to `out[i]`."""
    count = out.shape[0]
    for i in range(count):
        if i + AHEAD < count:
            prefetch_row(table, bar[i + AHEAD])
        row = table[bar[i]]
        for j in range(out.shape[1]):
            out[i, j] = row[j]


@njit(cache=True)
def _take_columns(table, bar, columns, out):
    """Writes the `columns` of row `bar[i]` to `out[i]`."""
    count = out.shape[0]
    for i in range(count):
        if i + AHEAD < count:
            prefetch_row(table, bar[i + AHEAD])
        row = table[bar[i]]
        for j in range(columns.size):
            out[i, j] = row[columns[j]]


@njit(cache=True)
def _take_windows(table, bar, length, out):
    """Writes rows `bar[i] - length + 1` to `bar[i]` to `out[i]`, (n, length * C)."""
    width = table.shape[1]
    # One after the other in memory, the rows of a window are a single run.
    run = table.reshape(-1)
    for i in range(out.shape[0]):
        first = (bar[i] - length + 1) * width
        window = run[first : first + length * width]
        for j in range(window.size):
            out[i, j] = window[j]


@njit(cache=True)
def _take_growth(table, bar, start, out):
    """Writes row `bar[i]` over row `start[i]` minus 1 to `out[i]`; 0 where the latter is not positive."""
    count = out.shape[0]
    for i in range(count):
        if i + AHEAD < count:
            prefetch_row(table, bar[i + AHEAD])
            prefetch_row(table, start[i + AHEAD])
        row, first = table[bar[i]], table[start[i]]
        for j in range(out.shape[1]):
            known = first[j] > 0.0
            out[i, j] = row[j] / (first[j] if known else 1.0) - 1.0 if known else 0.0


@njit(cache=True)
def _take_weights(positions, prices, bar, value, out):
    """Writes each position's part of the value to `out`; 0 where there is no value."""
    for i in range(out.shape[0]):
        row, held = prices[bar[i]], positions[i]
        per_unit = 1.0 / value[i] if value[i] > 0.0 else 0.0
        for j in range(out.shape[1]):
            out[i, j] = held[j] * row[j] * per_unit


#: What a sum may be rounded in another order for: vectors of numbers at a time.
_IN_ANY_ORDER = {"reassoc", "nnan", "nsz", "contract"}


@njit(cache=True, fastmath=_IN_ANY_ORDER)
def _take_deviation(table, bar, length, weights, out):
    """Writes the sample standard deviation of weighted sums of the `length` rows up to `bar[i]`."""
    sums = np.empty(length)
    for i in range(out.shape[0]):
        window, weight = table[bar[i] - length + 1 : bar[i] + 1], weights[i]
        mean = 0.0
        for k in range(length):
            row, total = window[k], 0.0
            for j in range(weight.size):
                total += weight[j] * row[j]
            sums[k] = total
            mean += total
        mean /= length
        squares = 0.0
        for k in range(length):
            squares += (sums[k] - mean) ** 2
        out[i] = np.sqrt(squares / (length - 1))


@njit(cache=True)
def _keep(chosen, bar, out):
    """Writes 0 to `out[i]` where row `bar[i]` is false."""
    for i in range(out.shape[0]):
        row = chosen[bar[i]]
        for j in range(out.shape[1]):
            out[i, j] = out[i, j] if row[j] else 0.0


@njit(cache=True, fastmath=_IN_ANY_ORDER)
def _below_largest(chosen, bar, factor, out):
    """Multiplies by the factor and subtracts each row's largest number of those that are chosen; never above 0."""
    for i in range(out.shape[0]):
        row, numbers, largest = chosen[bar[i]], out[i], -1e300
        for j in range(numbers.size):
            taken = 1.0 * row[j]
            number = numbers[j] * factor
            numbers[j] = number
            # By arithmetic: a branch on every number would cost more than all the rest.
            largest = max(largest, number * taken + (taken - 1.0) * 1e300)
        for j in range(numbers.size):
            numbers[j] = min(numbers[j] - largest, 0.0)


@njit(cache=True, fastmath=_IN_ANY_ORDER)
def _shares(chosen, bar, out):
    """Divides each row by the sum of what is chosen; what is not becomes 0."""
    for i in range(out.shape[0]):
        row, numbers, total = chosen[bar[i]], out[i], 0.0
        for j in range(numbers.size):
            number = numbers[j] * row[j]
            numbers[j] = number
            total += number
        share = 1.0 / total if total > 0.0 else 0.0
        for j in range(numbers.size):
            numbers[j] *= share


@njit(cache=True)
def _limit_each(most, out):
    """Cuts every number to [-most, most]."""
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = max(min(out[i, j], most), -most)


@njit(cache=True, fastmath=_IN_ANY_ORDER)
def _limit_sum(most, out):
    """Scales each row so that its numbers sum to at most `most`, whatever their signs."""
    for i in range(out.shape[0]):
        numbers, total = out[i], 0.0
        for j in range(numbers.size):
            total += abs(numbers[j])
        if total > most:
            share = most / total
            for j in range(numbers.size):
                numbers[j] *= share


class NumpyBackend:
    """Arrays on the CPU; `backend.Backend` says what its methods do."""

    xp = NUMPY_ARRAYS
    take = staticmethod(_take_rows)
    take_columns = staticmethod(_take_columns)
    take_window = staticmethod(_take_windows)
    take_growth = staticmethod(_take_growth)
    take_deviation = staticmethod(_take_deviation)
    keep = staticmethod(_keep)
    limit_each = staticmethod(_limit_each)
    limit_sum = staticmethod(_limit_sum)

    @staticmethod
    def softmax(chosen: Array | None, bar: Array, factor: float, out: Array) -> None:
        """Replaces `out[i]` by the softmax of `factor` times it over what row `bar[i]` chooses; None chooses all."""
        if chosen is None:
            chosen, bar = np.ones((1, out.shape[1]), np.bool_), np.zeros_like(bar)
        _below_largest(chosen, bar, factor, out)
        np.exp(out, out=out)
        _shares(chosen, bar, out)

    @staticmethod
    def take_weights(
        positions: Array, prices: Array, bar: Array, value: Array, out: Array, cash: Array | None = None
    ) -> None:
        """Writes positions (n, C) times row `bar[i]` of the prices over the value (n,) to `out`; 0 without value."""
        if cash is not None:
            out[:, 0] = cash / np.where(value > 0, value, np.inf)
            out = out[:, 1:]
        _take_weights(positions, prices, bar, value, out)

    @staticmethod
    def put(array: Array) -> Array:
        """The array itself, laid out row after row."""
        return np.ascontiguousarray(array)


NUMPY = NumpyBackend()

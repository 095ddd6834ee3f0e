"""Copies of table rows into observations, cast on the way: most of the bytes that a step moves.

Tables (T, C) are C-contiguous; `bar` (n,) says at which row each environment stands.
"""

from __future__ import annotations

from alphaswarm_rl.arrays.jit import njit
from alphaswarm_rl.arrays.prefetch import AHEAD, ask_for


@njit(cache=True)
def take_rows(table, bar, out):
    """Writes row `bar[i]` to `out[i]`."""
    count = out.shape[0]
    for i in range(count):
        if i + AHEAD < count:
            ask_for(table, bar[i + AHEAD])
        row = table[bar[i]]
        for j in range(out.shape[1]):
            out[i, j] = row[j]


@njit(cache=True)
def take_columns(table, bar, columns, out):
    """Writes the `columns` of row `bar[i]` to `out[i]`."""
    count = out.shape[0]
    for i in range(count):
        if i + AHEAD < count:
            ask_for(table, bar[i + AHEAD])
        row = table[bar[i]]
        for j in range(columns.size):
            out[i, j] = row[columns[j]]


@njit(cache=True)
def take_windows(table, bar, length, out):
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
def take_growth(table, bar, start, out):
    """Writes row `bar[i]` over row `start[i]` minus 1 to `out[i]`; 0 where the latter is not positive."""
    count = out.shape[0]
    for i in range(count):
        if i + AHEAD < count:
            ask_for(table, bar[i + AHEAD])
            ask_for(table, start[i + AHEAD])
        row, first = table[bar[i]], table[start[i]]
        for j in range(out.shape[1]):
            known = first[j] > 0.0
            out[i, j] = row[j] / (first[j] if known else 1.0) - 1.0 if known else 0.0


@njit(cache=True)
def take_weights(positions, prices, bar, value, out):
    """Writes each position's part of the value to `out`; 0 where there is no value."""
    for i in range(out.shape[0]):
        row, held = prices[bar[i]], positions[i]
        per_unit = 1.0 / value[i] if value[i] > 0.0 else 0.0
        for j in range(out.shape[1]):
            out[i, j] = held[j] * row[j] * per_unit

"""The Numba kernels by name and with keywords, on one thread or on many.

`parallel` shares the accounts out over Numba's threads: no account's numbers may depend on another's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import get_num_threads

from alphaswarm_rl.arrays.jit import njit, prange
from alphaswarm_rl.core.types import Array
from alphaswarm_rl.market import kernels_numba
from alphaswarm_rl.market.costs import CostRates
from alphaswarm_rl.market.margin import Margin

_NONE = np.empty((0, 0))


def trade_shares(
    cash: Array,
    positions: Array,
    orders: Array,
    time: Array,
    prices: Array,
    tradable: Array,
    volume: Array | None,
    rates: CostRates,
    *,
    whole: bool,
    cost: Array,
    turnover: Array,
    traded: Array,
    parallel: bool = False,
) -> None:
    """`Book.trade_shares`. `orders` (N, A) are units to buy, negative to sell; `traded` is (N, A)."""
    arguments = (cash, positions, orders, time, prices, tradable, volume, rates, whole, cost, turnover, traded)
    _run(kernels_numba.trade_shares, _shares_chunks, parallel, arguments)


def trade_units(
    cash: Array,
    positions: Array,
    orders: Array,
    time: Array,
    prices: Array,
    tradable: Array,
    volume: Array | None,
    rates: CostRates,
    margin: Margin,
    *,
    lot: float,
    cost: Array,
    turnover: Array,
    traded: Array,
    parallel: bool = False,
) -> None:
    """`Book.trade_units`. `orders` (N, A) are units to buy, negative to sell; `traded` is (N, A)."""
    limits = (margin.initial, margin.short, float(lot))
    arguments = (cash, positions, orders, time, prices, tradable, volume, rates, *limits, cost, turnover, traded)
    _run(kernels_numba.trade_units, _units_chunks, parallel, arguments)


def trade_to_weights(
    cash: Array,
    positions: Array,
    targets: Array,
    time: Array,
    prices: Array,
    tradable: Array,
    volume: Array | None,
    rates: CostRates,
    margin: Margin,
    *,
    cost: Array,
    turnover: Array,
    traded: Array,
    parallel: bool = False,
) -> None:
    """`Book.trade_to_weights`. `targets` (N, A) are weights after costs; `traded` is (N, A)."""
    limits = (margin.initial, margin.short)
    arguments = (cash, positions, targets, time, prices, tradable, volume, rates, *limits, cost, turnover, traded)
    _run(kernels_numba.trade_to_weights, _weights_chunks, parallel, arguments)


def trade_to_position(
    cash: Array,
    positions: Array,
    direction: Array,
    asset: Array,
    time: Array,
    prices: Array,
    tradable: Array,
    volume: Array | None,
    rates: CostRates,
    margin: Margin,
    *,
    size: float,
    by_units: bool,
    cost: Array,
    turnover: Array,
    traded: Array,
    parallel: bool = False,
) -> None:
    """`Book.trade_to_position` for account i in asset `asset[i]`.

    `direction` (N,) is -1, 0 or 1, or NaN, which leaves the position as it is; `size` is the fraction of the equity, or
    units with `by_units`; `traded` is (N,).
    """
    limits = (margin.initial, margin.short, float(size), by_units)
    market = (time, prices, tradable, volume, rates)
    arguments = (cash, positions, direction, asset, *market, *limits, cost, turnover, traded)
    _run(kernels_numba.trade_to_position, _position_chunks, parallel, arguments)


def close_positions(
    cash: Array,
    positions: Array,
    rows: Array,
    ends: Array,
    time: Array,
    prices: Array,
    tradable: Array,
    volume: Array | None,
    rates: CostRates,
    *,
    cost: Array,
    traded: Array,
    parallel: bool = False,
) -> None:
    """`Book.close` for assets that end, `Book.liquidate` for accounts that are called.

    `ends` (T, A) says which assets are closed at this row's price, tradable or not; `rows` (N,) which accounts lose
    every position that can trade; `traded` is (N, A).
    """
    arguments = (cash, positions, rows, ends, time, prices, tradable, volume, rates, cost, traded)
    _run(kernels_numba.close_positions, _close_chunks, parallel, arguments)


def adjust(
    cash: Array,
    positions: Array,
    time: Array,
    dividends: Array | None,
    splits: Array | None,
    *,
    parallel: bool = False,
) -> None:
    """`Book.adjust`. `dividends` (T, A) are money per unit after `splits` (T, A), which are new units per old one."""
    _run(kernels_numba.adjust, _adjust_chunks, parallel, (cash, positions, time, dividends, splits))


def mark(
    cash: Array,
    positions: Array,
    time: Array,
    marks: Array,
    rates: CostRates,
    margin: Margin,
    *,
    equity: Array,
    carry: Array,
    called: Array,
    parallel: bool = False,
) -> None:
    """`Book.accrue`, `Book.equity` and `Book.called` at the bar's close.

    Writes the equity (N,) after one bar's borrow and funding, these as `carry` (N,) in money, and whether the equity is
    below the maintenance margin, `called` (N,).
    """
    arguments = (cash, positions, time, marks, rates, margin.maintenance, equity, carry, called)
    _run(kernels_numba.mark, _mark_chunks, parallel, arguments)


@njit(cache=True, parallel=True)
def _shares_chunks(chunks, count, *arguments):
    """All accounts, shared out over threads."""
    for chunk in prange(chunks):
        kernels_numba.trade_shares(chunk * count // chunks, (chunk + 1) * count // chunks, *arguments)


@njit(cache=True, parallel=True)
def _close_chunks(chunks, count, *arguments):
    """All accounts, shared out over threads."""
    for chunk in prange(chunks):
        kernels_numba.close_positions(chunk * count // chunks, (chunk + 1) * count // chunks, *arguments)


@njit(cache=True, parallel=True)
def _adjust_chunks(chunks, count, *arguments):
    """All accounts, shared out over threads."""
    for chunk in prange(chunks):
        kernels_numba.adjust(chunk * count // chunks, (chunk + 1) * count // chunks, *arguments)


@njit(cache=True, parallel=True)
def _mark_chunks(chunks, count, *arguments):
    """All accounts, shared out over threads."""
    for chunk in prange(chunks):
        kernels_numba.mark(chunk * count // chunks, (chunk + 1) * count // chunks, *arguments)


@njit(cache=True, parallel=True)
def _weights_chunks(chunks, count, *arguments):
    """All accounts, shared out over threads."""
    for chunk in prange(chunks):
        kernels_numba.trade_to_weights(chunk * count // chunks, (chunk + 1) * count // chunks, *arguments)


@njit(cache=True, parallel=True)
def _units_chunks(chunks, count, *arguments):
    """All accounts, shared out over threads."""
    for chunk in prange(chunks):
        kernels_numba.trade_units(chunk * count // chunks, (chunk + 1) * count // chunks, *arguments)


@njit(cache=True, parallel=True)
def _position_chunks(chunks, count, *arguments):
    """All accounts, shared out over threads."""
    for chunk in prange(chunks):
        kernels_numba.trade_to_position(chunk * count // chunks, (chunk + 1) * count // chunks, *arguments)


def _run(rows: Callable[..., None], chunks: Callable[..., None], parallel: bool, arguments: tuple[Any, ...]) -> None:
    # Loops over threads take arrays and plain numbers alone: no None, no tuple.
    plain = [
        _NONE if argument is None else np.array(argument) if isinstance(argument, CostRates) else argument
        for argument in arguments
    ]
    count = plain[0].shape[0]
    if parallel:
        chunks(get_num_threads(), count, *plain)
    else:
        rows(0, count, *plain)

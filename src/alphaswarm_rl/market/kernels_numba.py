"""The Book for N accounts at once, on the CPU: one fused loop per account, in float64.

Arrays of accounts are (N,) and (N, A) and are changed in place, results are written to arrays of the caller. What the
market shows is (T, A), stored once; account i reads row `time[i]` of it. No account's numbers depend on another's, so
an account alone and in a batch of thousands agree bit for bit, on one thread or many.

Every formula and order of additions is that of `book.py`, except that target weights are solved by Newton's method.
Arguments that all of them share:

    cash       (N,)   money
    positions  (N, A) units, negative when short
    time       (N,)   integers: the row of the fill, of the mark, or of the corporate action
    prices     (T, A) money per unit; where an asset cannot trade, its last known price
    tradable   (T, A) booleans
    volume     (T, A) units per bar, or None when there is no impact
    rates      `CostModel.rates(...)`
    cost       (N,)   out: commission, spread and impact in money
    turnover   (N,)   out: value traded in risky assets over the equity before the trade
    traded     out: units bought, negative when sold
    parallel   whether to use Numba's threads
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import get_num_threads

from alphaswarm_rl.market import kernels_numba_orders as orders_
from alphaswarm_rl.market import kernels_numba_targets as targets_
from alphaswarm_rl.market.costs import CostRates
from alphaswarm_rl.market.margin import Margin

Array = np.ndarray[Any, Any]

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
    _run(orders_.shares_rows, orders_.shares_chunks, parallel, arguments)


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
    _run(targets_.weights_rows, targets_.weights_chunks, parallel, arguments)


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
    _run(targets_.position_rows, targets_.position_chunks, parallel, arguments)


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
    _run(orders_.close_rows, orders_.close_chunks, parallel, arguments)


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
    _run(orders_.adjust_rows, orders_.adjust_chunks, parallel, (cash, positions, time, dividends, splits))


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
    _run(orders_.mark_rows, orders_.mark_chunks, parallel, arguments)


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

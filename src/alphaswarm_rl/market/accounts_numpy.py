"""One bar of trading for n accounts on the CPU: corporate actions, fills, assets that end, the mark, margin calls."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from alphaswarm_rl.core.contracts import Trade
from alphaswarm_rl.market import kernels_numba_orders as orders
from alphaswarm_rl.market import kernels_numba_targets as targets
from alphaswarm_rl.market.costs import CostModel
from alphaswarm_rl.market.margin import Margin
from alphaswarm_rl.market.view import View

Array = np.ndarray[Any, Any]
#: Gives prices (n,) at which positions are closed inside the bar, NaN where they are not.
Exits = Callable[[], Array]


class NumpyAccounts:
    """Moves the accounts of a view on by one bar.

    The arrays of view and orders stay the same all the time, so that the kernels' arguments are put together once.

    Args:
        view: The accounts, changed in place.
        wanted: What is to be traded, as `trade` says: (n, A), or (n,) where it is a position.
        trade: How that is meant.
        costs: What trading costs.
        margin: What may be owed.

    Attributes:
        closed: Units (n, A) that were closed by force in the step, by reason; without those that closed nothing.
    """

    def __init__(self, view: View, wanted: Array, trade: Trade, costs: CostModel, margin: Margin) -> None:
        market, n = view.market, view.n
        costs.check_volume(market.panel.volume)
        margin.check_costs(costs)
        self.view = view
        self.closed: dict[str, Array] = {}
        self.wanted = wanted
        self.trade = trade
        self._lends = margin.lends
        self._in_units = market.splits is not None and (trade.way == "shares" or trade.by_units)
        none = np.empty((0, 0))
        self._rates = np.array(costs.rates(market.panel.periods_per_year))
        # Kernels that need no volume are spared it.
        self._volume = market.volume if costs.impact > 0 else none
        self._cost, self._traded, self._one = np.empty(n), np.empty((n, market.assets)), np.empty(n)
        self._nobody = np.zeros(n, np.bool_)
        account = (0, n, view.cash, view.positions)
        dividends = none if market.dividends is None else market.dividends
        splits = none if market.splits is None else market.splits
        self._adjusts = (*account, view.bar, dividends, splits) if dividends.size or splits.size else None
        fill = (view.bar, market.fill_price, market.tradable, self._volume, self._rates)
        results = (view.cost, view.turnover)
        self._fill: Callable[..., None]
        self._fills: tuple[Any, ...]
        limits = (margin.initial, margin.short)
        if trade.way == "shares":
            self._fill, self._fills = orders.shares_rows, (*account, wanted, *fill, trade.whole, *results, view.traded)
        elif trade.way == "weights":
            self._fill, self._fills = targets.weights_rows, (*account, wanted, *fill, *limits, *results, view.traded)
        else:
            asset, size = np.full(n, trade.asset, np.int64), (float(trade.size), trade.by_units)
            self._fill = self._to_position
            self._fills = (*account, wanted, asset, *fill, *limits, *size, *results, self._one)
        marks = (view.bar, market.close, self._rates, margin.maintenance)
        self._marks = (*account, *marks, view.value, view.carry, view.called)

    def step(self, exits: Exits | None = None) -> None:
        """Fills, moves to the next bar and marks.

        Brackets hand in their exits, asked for after the fill; where orders fill at the bar's close they are asked for
        before it too: what happens inside the bar comes first.
        """
        view, market = self.view, self.view.market
        self.closed.clear()
        if not market.fill.lag:
            self._fill(*self._fills)
        view.bar += 1
        if self._adjusts is not None:
            orders.adjust_rows(*self._adjusts)
        if self._in_units and market.fill.lag:
            # Units that were ordered before a split are that many more after it.
            self.wanted *= (
                market.splits[view.bar] if self.trade.way == "shares" else market.splits[view.bar, self.trade.asset]
            )
        if market.fill.lag and market.fill.price == "close" and exits is not None:
            self._exit_and_fill(exits)
        elif market.fill.lag:
            self._fill(*self._fills)
        if exits is not None:
            self._exit(exits())
        if market.ends is not None:
            self._close("asset_end", self._nobody, market.ends, view.bar, market.close, self._volume)
        orders.mark_rows(*self._marks)
        if self._lends and np.count_nonzero(view.called):
            self._close("margin_call", view.called, self._no_ends, view.bar, market.close, self._volume)
            view.value[:] = np.where(view.called, view.cash + (view.positions * view.close).sum(axis=-1), view.value)

    @cached_property
    def _no_ends(self) -> Array:
        return np.zeros_like(self.view.market.tradable)

    def _to_position(self, *arguments: Any) -> None:
        targets.position_rows(*arguments)
        self.view.traded[:] = 0.0
        self.view.traded[:, self.trade.asset] = self._one

    def _exit_and_fill(self, exits: Exits) -> None:
        """What leaves inside the bar, then the fill at its close, which writes its results anew."""
        view = self.view
        results = (view.cost, view.turnover, view.traded)
        for array in results:
            array[...] = 0.0
        self._exit(exits())
        inside = [array.copy() for array in results]
        self._fill(*self._fills)
        for array, before in zip(results, inside, strict=True):
            array += before

    def _exit(self, price: Array) -> None:
        """Closes the position at a price inside the bar, where one is given."""
        view, asset = self.view, self.trade.asset
        leaving = np.isfinite(price)
        if not np.count_nonzero(leaving):
            return
        prices = view.close
        prices[leaving, asset] = price[leaving]
        ends = np.zeros(prices.shape, np.bool_)
        ends[leaving, asset] = True
        volume = self._volume if self._volume.size == 0 else self._volume[view.bar]
        self._close("bracket", self._nobody, ends, np.arange(view.n), prices, volume)

    def _close(self, reason: str, who: Array, ends: Array, rows: Array, prices: Array, volume: Array) -> None:
        """Closes assets that end at these rows, and everything that trades in some accounts."""
        view = self.view
        account = (0, view.n, view.cash, view.positions)
        tradable = view.market.tradable if rows is view.bar else ends
        market = (ends, rows, prices, tradable, volume, self._rates)
        orders.close_rows(*account, who, *market, self._cost, self._traded)
        if not np.count_nonzero(self._traded):
            return
        self.closed[reason] = self.closed.get(reason, 0.0) + self._traded
        view.cost += self._cost
        view.traded += self._traded
        before = np.where(view.value_before > 0, view.value_before, np.inf)
        view.turnover += (np.abs(self._traded) * prices[rows]).sum(axis=-1) / before

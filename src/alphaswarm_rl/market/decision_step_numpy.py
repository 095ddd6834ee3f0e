"""The decision step of n accounts on the CPU: act, stages, gate, fill, mark.

The accounts are the arrays of a `View`, one row each, and a step changes them in place: actions become targets, targets
become trades at the fill price, and the accounts are marked at the next bar's close. Everything that moves money in the
bar happens in between: dividends and splits, exits of brackets, assets that end, margin calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from gymnasium.vector.utils import batch_space

from alphaswarm_rl.core.errors import EnvError
from alphaswarm_rl.core.types import AnySpace, Array
from alphaswarm_rl.core.view import View
from alphaswarm_rl.market import kernels_numba as kernels
from alphaswarm_rl.market.costs import CostModel
from alphaswarm_rl.market.decider import Decider
from alphaswarm_rl.market.margin import Margin
from alphaswarm_rl.market.market import average_cost
from alphaswarm_rl.market.sizing import SizedOrders, SizingRules, refuse_unsizable, sizing_numbers
from alphaswarm_rl.market.trade_log import TradeLog


class NumpyDecisionStep:
    """Moves the accounts of a view on by one decision; the torch form is `decision_step_torch.TorchDecisionStep`.

    The arrays of the view stay the same all the time, so that the kernels' arguments are put together once.

    Args:
        view: The accounts, changed in place.
        decider: What makes targets of actions.
        costs: What trading costs.
        margin: What may be owed.
        sizing: By which rules weights become orders in units when the decision is made; None: they are traded to at
            the fill.

    Attributes:
        sized: What the last step ordered, in arrays that the next one writes over; None without `sizing`.
        closed: Units (n, A) that were closed by force in the step, by reason; without those that closed nothing.
        logs: Whether steps are logged.
        log: What the last step did, asset by asset; None unless steps are logged.
    """

    def __init__(
        self, view: View, decider: Decider, costs: CostModel, margin: Margin, sizing: SizingRules | None = None
    ) -> None:
        market, n, trade = view.market, view.n, decider.trade
        costs.check_volume(market.panel.volume)
        margin.check_costs(costs)
        if sizing is not None:
            refuse_unsizable(trade)
        self.view = view
        self.decider = decider
        self.closed: dict[str, Array] = {}
        self.logs = False
        self.log: TradeLog | None = None
        self._trade = trade
        self._actions = ActionCheck(decider.space, n)
        self._targets = np.empty(n if trade.way == "position" else (n, market.assets))
        self._lends = margin.lends
        self._sizing = sizing
        orders = trade.way == "shares" or trade.by_units or sizing is not None
        self._in_units = market.splits is not None and orders
        none = np.empty((0, 0))
        self._rates = np.array(costs.rates(market.panel.periods_per_year))
        # Kernels that need no volume are spared it.
        self._volume = market.volume if costs.impact > 0 else none
        self._cost, self._traded, self._traded_asset = np.empty(n), np.empty((n, market.assets)), np.empty(n)
        self._nobody = np.zeros(n, np.bool_)
        self.sized: SizedOrders | None = None
        self._size_args: tuple[Any, ...] = ()
        account = (0, n, view.cash, view.positions)
        dividends = none if market.dividends is None else market.dividends
        splits = none if market.splits is None else market.splits
        self._adjust_args = (*account, view.bar, dividends, splits) if dividends.size or splits.size else None
        self._fill, self._fill_args = self._fill_kernel(margin)
        marks = (view.bar, market.close, self._rates, margin.maintenance)
        self._mark_args = (*account, *marks, view.value, view.carry, view.called)

    def _fill_kernel(self, margin: Margin) -> tuple[Callable[..., None], tuple[Any, ...]]:
        """The kernel that fills what the trade means, and its arguments."""
        view, market, trade = self.view, self.view.market, self._trade
        account = (0, view.n, view.cash, view.positions, self._targets)
        fill = (view.bar, market.fill_price, market.tradable, self._volume, self._rates)
        results, limits = (view.cost, view.turnover), (margin.initial, margin.short)
        if trade.way == "shares":
            return kernels.trade_shares, (*account, *fill, trade.whole, *results, view.traded)
        if self._sizing is not None:
            return self._units_kernel(self._sizing, margin)
        if trade.way == "weights":
            return kernels.trade_to_weights, (*account, *fill, *limits, *results, view.traded)
        asset, size = np.full(view.n, trade.asset, np.int64), (float(trade.size), trade.by_units)
        return self._fill_position, (*account, asset, *fill, *limits, *size, *results, self._traded_asset)

    def _units_kernel(self, sizing: SizingRules, margin: Margin) -> tuple[Callable[..., None], tuple[Any, ...]]:
        """The kernel that fills orders which were made of weights, and its arguments; sets those of the sizing."""
        view, market = self.view, self.view.market
        shape = (view.n, market.assets)
        self.sized = SizedOrders(np.zeros(shape), np.zeros(shape, np.int8))
        self._orders = np.empty(shape)
        limits, numbers = (margin.initial, margin.short), sizing_numbers(sizing)
        account, rows = (0, view.n, view.cash, view.positions), (market.tradable, self._volume, self._rates)
        known, fill = (view.bar, market.close, *rows), (view.bar, market.fill_price, *rows)
        self._size_args = (
            *account, self._targets, *known, *limits, *numbers, self.sized.orders, self.sized.reasons
        )  # fmt: skip
        results = (view.cost, view.turnover, view.traded)
        return kernels.trade_units, (*account, self._orders, *fill, *limits, float(sizing.lot), *results)

    def step(self, actions: Array) -> None:
        """Acts, fills, moves to the next bar and marks; actions that are not of the space are refused.

        The action, the stages and the gate are `Decider.decide`; fill and mark follow here.
        """
        view = self.view
        if self.logs:
            self.log = TradeLog(view)
        logged = (None, None) if self.log is None else (self.log.targets, self.log.measured)
        self.decider.decide(view, self._actions.checked(actions), self._targets, *logged)
        if self.log is not None and self.decider.stops_orders:
            self.log.stopped = self.decider.stopped(view)
        if self.sized is not None:
            kernels.size_orders(*self._size_args)
            self._orders[:] = self.sized.orders
        view.value_before[:] = view.value
        self._fill_and_mark()
        np.maximum(view.peak, view.value, out=view.peak)
        if view.average_cost is not None:
            view.average_cost[:] = average_cost(view)

    def _fill_and_mark(self) -> None:
        """One bar of trading towards the targets.

        Exits of brackets come after the fill; where orders fill at the bar's close they come before it too: what
        happens inside the bar comes first.
        """
        view, market = self.view, self.view.market
        self.closed.clear()
        if not market.fill.lag:
            self._order()
        view.bar += 1
        if self._adjust_args is not None:
            kernels.adjust(*self._adjust_args)
        if self._in_units and market.fill.lag:
            # Units that were ordered before a split are that many more after it.
            self._split(market.splits[view.bar])
        if market.fill.lag and market.fill.price == "close" and self._trade.bracket:
            self._exit_and_fill()
        elif market.fill.lag:
            self._order()
        if self._trade.bracket:
            self._exit(1)
        if market.ends is not None:
            self._close("asset_end", self._nobody, market.ends, view.bar, market.close, self._volume)
            if self.log is not None:
                self.log.ended = self._traded.copy()
        kernels.mark(*self._mark_args)
        if self._lends and np.count_nonzero(view.called):
            self._call()

    def _split(self, splits: Array) -> None:
        """Multiplies the units that are ordered."""
        if self.sized is not None:
            self._orders *= splits
        else:
            self._targets *= splits if self._trade.way == "shares" else splits[:, self._trade.asset]

    def _call(self) -> None:
        """Closes the accounts that are called for margin."""
        view, market = self.view, self.view.market
        self._close("margin_call", view.called, self._no_ends, view.bar, market.close, self._volume)
        if self.log is not None:
            self.log.called = self._traded.copy()
        view.value[:] = np.where(view.called, view.cash + (view.positions * view.close).sum(axis=-1), view.value)

    @cached_property
    def _no_ends(self) -> Array:
        return np.zeros_like(self.view.market.tradable)

    def _order(self) -> None:
        """Trades towards the targets."""
        self._fill(*self._fill_args)
        if self.log is not None:
            self.log.ordered = self.view.traded.copy()

    def _fill_position(self, *arguments: object) -> None:
        kernels.trade_to_position(*arguments)
        self.view.traded[:] = 0.0
        self.view.traded[:, self._trade.asset] = self._traded_asset

    def _exit_and_fill(self) -> None:
        """Exits inside the bar, then the fill at its close, which writes its results anew."""
        view = self.view
        results = (view.cost, view.turnover, view.traded)
        for array in results:
            array[...] = 0.0
        self._exit(0)
        inside = [array.copy() for array in results]
        self._order()
        for array, before in zip(results, inside, strict=True):
            array += before

    def _exit(self, place: int) -> None:
        """Closes positions at the prices that a bracket gives, where it gives one; `place` is for the log."""
        view, asset = self.view, self._trade.asset
        stops = None if self.log is None else np.asarray(self.decider.stops(view), np.float64)
        price = np.asarray(self.decider.exits(view))
        leaving = np.isfinite(price)
        if not np.count_nonzero(leaving):
            return
        prices = view.close
        prices[leaving, asset] = price[leaving]
        ends = np.zeros(prices.shape, np.bool_)
        ends[leaving, asset] = True
        volume = self._volume if self._volume.size == 0 else self._volume[view.bar]
        self._close("bracket", self._nobody, ends, np.arange(view.n), prices, volume)
        if self.log is not None:
            self.log.exit(place, self._traded[:, asset].copy(), np.where(leaving, price, 0.0), stops)

    def _close(self, reason: str, accounts: Array, ends: Array, rows: Array, prices: Array, volume: Array) -> None:
        """Closes assets that end at these rows, and everything that trades in some accounts."""
        view = self.view
        tradable = view.market.tradable if rows is view.bar else ends
        market = (ends, rows, prices, tradable, volume, self._rates)
        kernels.close_positions(0, view.n, view.cash, view.positions, accounts, *market, self._cost, self._traded)
        if not np.count_nonzero(self._traded):
            return
        self.closed[reason] = self.closed.get(reason, 0.0) + self._traded
        view.cost += self._cost
        view.traded += self._traded
        before = np.where(view.value_before > 0, view.value_before, np.inf)
        view.turnover += (np.abs(self._traded) * prices[rows]).sum(axis=-1) / before


class ActionCheck:
    """Refuses actions of n accounts that are not of the space or not finite numbers.

    Args:
        space: The space of one account's action.
        n: Number of accounts.
    """

    def __init__(self, space: AnySpace, n: int) -> None:
        self._space, self._n = space, n
        self._shape = (n, *(space.shape or ()))
        self._discrete = space.dtype is not None and space.dtype.kind in "iu"
        self._kinds = "iu" if self._discrete else "iuf"

    def checked(self, actions: Array) -> Array:
        """The actions."""
        actions = np.asarray(actions)
        if actions.shape != self._shape or actions.dtype.kind not in self._kinds:
            raise EnvError(
                f"actions of shape {actions.shape} and type {actions.dtype}",
                f"this environment takes {batch_space(self._space, self._n)}",
                "Give one action per environment.",
            )
        # One look at the sum tells whether any is not a number.
        if self._discrete:
            self._refuse_unknown(actions)
        elif not math.isfinite(np.add.reduce(actions, axis=None)) and not np.isfinite(actions).all():
            row = int(np.argwhere(~np.isfinite(actions))[0][0])
            raise EnvError(f"the action of environment {row}", "it is not a finite number", "Mend the policy.")
        return actions

    def _refuse_unknown(self, actions: Array) -> None:
        space: Any = self._space
        wrong = (actions < 0) | (actions >= (space.n if hasattr(space, "n") else space.nvec))
        if np.count_nonzero(wrong):
            row = int(np.argwhere(wrong)[0][0])
            raise EnvError(f"action {actions[row]} of environment {row}", f"it is not in {space}", "Give one that is.")

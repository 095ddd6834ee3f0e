"""The decision step of n accounts in torch: act, stages, gate, fill, mark; the twin of `decision_step_numpy`.

The accounts are the tensors of a `View`, one row each, and a step replaces them by new ones and changes none: it is a
function of tensors that can be compiled, and nothing in it waits for the device.
"""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import torch
from torch import Tensor

from alphaswarm_rl.core.types import AnySpace
from alphaswarm_rl.core.view import View
from alphaswarm_rl.market import kernels_torch as kernels
from alphaswarm_rl.market.costs import CostModel, CostRates
from alphaswarm_rl.market.decider import Decider
from alphaswarm_rl.market.margin import Margin
from alphaswarm_rl.market.market import Market, average_cost
from alphaswarm_rl.market.sizing import SizingRules, refuse_unsizable
from alphaswarm_rl.market.trade_log import TradeLog


class TorchDecisionStep:
    """Moves the accounts of a view on by one decision.

    Unlike `NumpyDecisionStep`, whose kernels are bound to the arrays of one view, it is given view and decider with
    every step: compiled, each step is a function of other tensors.

    Nobody can look whether actions are sound: one that is not a finite number counts as 0, a discrete one that is out
    of range as the nearest one.

    Args:
        market: What is traded.
        decider: What makes targets of actions.
        costs: What trading costs.
        margin: What may be owed.
        sizing: By which rules weights become orders in units when the decision is made; None: they are traded to at
            the fill.
    """

    def __init__(
        self, market: Market, decider: Decider, costs: CostModel, margin: Margin, sizing: SizingRules | None = None
    ) -> None:
        costs.check_volume(market.panel.volume)
        margin.check_costs(costs)
        device = market.close.device
        self.market = market
        self.trade = trade = decider.trade
        self.margin = margin
        self.sizing = sizing
        if sizing is not None:
            refuse_unsizable(trade)
        self.rates = costs.rates(market.panel.periods_per_year)
        self._last_action = _last_action(decider.space, device)
        self._by_asset = trade.way == "shares" or sizing is not None
        self._in_units = market.splits is not None and (self._by_asset or trade.by_units)
        # Kernels that need no volume are spared it.
        self._volume = market.volume if costs.impact > 0 else None
        self._trader = _trader(self.rates, margin, device)
        self._chosen = torch.arange(market.assets, device=device) == trade.asset

    def step(self, view: View, decider: Decider, actions: Tensor, log: TradeLog | None = None) -> None:
        """Acts, fills, moves to the next bar and marks.

        Args:
            view: The accounts, whose tensors are replaced.
            decider: The decider with the arrays that this step changes.
            actions: One per account.
            log: Is told what the step does, asset by asset; None: nobody wants to know.
        """
        logged = (None, None) if log is None else (log.targets, log.measured)
        target = decider.decide(view, self._sound(actions), None, *logged)
        if log is not None and decider.stops_orders:
            log.stopped = decider.stopped(view)
        if self.sizing is not None:
            rows = kernels.MarketRows(view.bar, self.market.close, self.market.tradable, self._volume)
            account = (view.cash, view.positions, target)
            target, _ = kernels.size_orders(*account, rows, self.rates, self.margin, self.sizing)
        # A copy: tensors of the view from before the step may be written over after it.
        view.value_before = torch.clone(view.value)
        self._fill_and_mark(view, decider, target, log)
        view.peak = torch.maximum(view.peak, view.value)
        if view.average_cost is not None:
            view.average_cost = average_cost(view)

    def _sound(self, actions: Tensor) -> Tensor:
        if self._last_action is None:
            return torch.where(actions.isfinite(), actions, torch.zeros_like(actions))
        return torch.clamp(torch.clamp(actions.to(torch.int64), min=0), max=self._last_action)

    def _fill_and_mark(self, view: View, decider: Decider, target: Tensor, log: TradeLog | None) -> None:
        """One bar of trading towards the targets.

        Exits of brackets come after the fill; where orders fill at the bar's close they come before it too: what
        happens inside the bar comes first.
        """
        fill, bracket, marked = self.market.fill, self.trade.bracket, None
        if not fill.lag:
            self._fill(view, target, log)
        view.bar = view.bar + 1
        self._adjust(view)
        if self._in_units and fill.lag:
            # Units that were ordered before a split are that many more after it.
            splits = self.market.splits[view.bar]
            target = target * (splits if self._by_asset else splits[:, self.trade.asset])
        if fill.lag and fill.price == "close" and bracket:
            self._exit_and_fill(view, decider, target, log)
        elif fill.lag:
            # Where nothing comes between the two, the fill may mark at once.
            at_once = not bracket and self.market.ends is None
            marked = self._fill(view, target, log, marks=self.market.close if at_once else None)
        if bracket:
            self._exit(view, decider, log, place=1)
        if self.market.ends is not None:
            self._end(view, log, self.market.ends)
        if marked is None:
            marked = self._trader.mark(view.cash, view.positions, view.bar, self.market.close)
        view.cash, view.value, view.carry, view.called = marked
        if self.margin.lends:
            self._call(view, log)

    def _end(self, view: View, log: TradeLog | None, ends: Tensor) -> None:
        """Closes the assets that end."""
        ended = self._close(view, None, ends)
        if log is not None:
            log.ended = ended

    def _call(self, view: View, log: TradeLog | None) -> None:
        """Closes the accounts that are called for margin."""
        called = self._close(view, view.called, None)
        if log is not None:
            log.called = called
        value = view.cash + (view.positions * view.close).sum(-1)
        view.value = torch.where(view.called, value, view.value)

    def _adjust(self, view: View) -> None:
        market = self.market
        if market.dividends is not None or market.splits is not None:
            view.cash, view.positions = kernels.adjust(
                view.cash, view.positions, view.bar, market.dividends, market.splits
            )

    def _fill(
        self, view: View, target: Tensor, log: TradeLog | None, marks: Tensor | None = None
    ) -> kernels.Marked | None:
        """Trades; gives the accounts as they are marked where `marks` are given and the trader can do both at once."""
        market, trade, marked = self.market, self.trade, None
        rows = kernels.MarketRows(view.bar, market.fill_price, market.tradable, self._volume)
        account = (view.cash, view.positions, target)
        if trade.way == "shares":
            done, marked = self._trader.trade_shares(*account, rows, marks, whole=trade.whole)
        elif self.sizing is not None:
            done = self._trader.trade_units(*account, rows, lot=float(self.sizing.lot))
        elif trade.way == "weights":
            done, marked = self._trader.trade_to_weights(*account, rows, marks)
        else:
            held = view.positions[:, trade.asset]
            stay = held / trade.size if trade.by_units else torch.sign(held)
            done = kernels.trade_to_position(
                view.cash,
                view.positions,
                torch.where(target.isnan(), stay, target),
                torch.full_like(view.bar, trade.asset),
                rows,
                self.rates,
                self.margin,
                size=trade.size,
                by_units=trade.by_units,
            )
        view.cash, view.positions, view.cost, view.turnover, view.traded = done
        if log is not None:
            log.ordered = done.traded.clone()
        return marked

    def _exit_and_fill(self, view: View, decider: Decider, target: Tensor, log: TradeLog | None) -> None:
        """Exits inside the bar, then the fill at its close, which writes its results anew."""
        view.cost, view.turnover = torch.zeros_like(view.cost), torch.zeros_like(view.turnover)
        view.traded = torch.zeros_like(view.traded)
        self._exit(view, decider, log, place=0)
        cost, turnover, traded = view.cost, view.turnover, view.traded
        self._fill(view, target, log)
        view.cost, view.turnover, view.traded = view.cost + cost, view.turnover + turnover, view.traded + traded

    def _exit(self, view: View, decider: Decider, log: TradeLog | None, *, place: int) -> None:
        """Closes the position at a price inside the bar, where a bracket gives one; `place` is for the log."""
        stops: Tensor = None if log is None else decider.stops(view)
        price: Tensor = decider.exits(view)
        leaving = self._chosen & price.isfinite()[:, None]
        prices = torch.where(leaving, price[:, None], view.close)
        volume = None if self._volume is None else self._volume[view.bar].double()
        closed = kernels.close_at(view.cash, view.positions, leaving, prices, volume, self.rates)
        self._closed(view, closed, prices)
        if log is not None:
            found = torch.where(price.isfinite(), price, 0.0)
            log.exit(place, closed.traded[:, self.trade.asset].clone(), found, stops.double())

    def _close(self, view: View, accounts: Tensor | None, ends: Tensor | None) -> Tensor:
        """Closes ended assets everywhere, or everything that trades in some accounts, at the bar's close; the units."""
        rows = kernels.MarketRows(view.bar, self.market.close, self.market.tradable, self._volume)
        closed = kernels.close_positions(view.cash, view.positions, accounts, ends, rows, self.rates)
        self._closed(view, closed, view.close)
        return closed.traded

    def _closed(self, view: View, closed: kernels.Traded, prices: Tensor) -> None:
        view.cash, view.positions = closed.cash, closed.positions
        view.cost = view.cost + closed.cost
        view.traded = view.traded + closed.traded
        before = torch.where(view.value_before > 0, view.value_before, torch.inf)
        view.turnover = view.turnover + (closed.traded.abs() * prices).sum(-1) / before


def _last_action(space: AnySpace, device: torch.device) -> int | Tensor | None:
    """The largest discrete action; None where actions are numbers."""
    if space.dtype is None or space.dtype.kind not in "iu":
        return None
    if hasattr(space, "n"):
        return int(space.n) - 1
    return torch.tensor(np.asarray(space.nvec) - 1, device=device)  # type: ignore[attr-defined]


def _trader(rates: CostRates, margin: Margin, device: torch.device) -> kernels.TorchTrader:
    """What trades and marks: on NVIDIA's GPUs, where Triton is there, kernels written for them."""
    if device.type == "cuda" and find_spec("triton") is not None:
        from alphaswarm_rl.market import kernels_triton

        return kernels_triton.TritonTrader(rates, margin, device)
    return kernels.TorchTrader(rates, margin)

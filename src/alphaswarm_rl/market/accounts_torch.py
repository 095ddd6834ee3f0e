"""One bar of trading for n accounts in torch; the twin of `accounts_numpy`."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from alphaswarm_rl.core.contracts import Trade
from alphaswarm_rl.market import kernels_torch as kernels
from alphaswarm_rl.market import kernels_torch_targets as targets
from alphaswarm_rl.market.costs import CostModel, CostRates
from alphaswarm_rl.market.margin import Margin
from alphaswarm_rl.market.market import Market
from alphaswarm_rl.market.view import View


class TorchAccounts:
    """Moves the accounts of a view on by one bar.

    The view's tensors are replaced by new ones, and none is changed. Nothing waits for the device.

    Args:
        market: What is traded.
        trade: How the numbers to be traded are meant.
        costs: What trading costs.
        margin: What may be owed.
    """

    def __init__(self, market: Market, trade: Trade, costs: CostModel, margin: Margin) -> None:
        costs.check_volume(market.panel.volume)
        margin.check_costs(costs)
        self.market = market
        self.trade = trade
        self.margin = margin
        self.rates = costs.rates(market.panel.periods_per_year)
        self._in_units = market.splits is not None and (trade.way == "shares" or trade.by_units)
        # Kernels that need no volume are spared it.
        self._volume = market.volume if costs.impact > 0 else None
        self._trader = _trader(self.rates, margin, market.close.device)
        self._chosen = torch.arange(market.assets, device=market.close.device) == trade.asset

    def step(self, view: View, wanted: Tensor, exits: Any = None) -> None:
        """Fills `wanted`, moves to the next bar and marks.

        Args:
            view: The accounts, whose tensors are replaced.
            wanted: What `trade` says, (n, A) or (n,).
            exits: For brackets: called with the view after the fill, at the new bar; gives prices (n,) at which the
                position is closed inside the bar, NaN where it is not. Where orders fill at the bar's close it is
                called before the fill too: what happens inside the bar comes first.
        """
        fill, marked = self.market.fill, None
        if not fill.lag:
            self._fill(view, wanted)
        view.bar = view.bar + 1
        self._adjust(view)
        if self._in_units and fill.lag:
            # Units that were ordered before a split are that many more after it.
            splits = self.market.splits[view.bar]
            wanted = wanted * (splits if self.trade.way == "shares" else splits[:, self.trade.asset])
        if fill.lag and fill.price == "close" and exits is not None:
            self._exit_and_fill(view, wanted, exits)
        elif fill.lag:
            # Where nothing comes between the two, the fill may mark at once.
            at_once = exits is None and self.market.ends is None
            marked = self._fill(view, wanted, marks=self.market.close if at_once else None)
        if exits is not None:
            self._exit(view, exits(view))
        if self.market.ends is not None:
            self._close(view, None, self.market.ends)
        if marked is None:
            marked = self._trader.mark(view.cash, view.positions, view.bar, self.market.close)
        view.cash, view.value, view.carry, view.called = marked
        if self.margin.lends:
            self._close(view, view.called, None)
            value = view.cash + (view.positions * view.close).sum(-1)
            view.value = torch.where(view.called, value, view.value)

    def _adjust(self, view: View) -> None:
        market = self.market
        if market.dividends is not None or market.splits is not None:
            view.cash, view.positions = kernels.adjust(
                view.cash, view.positions, view.bar, market.dividends, market.splits
            )

    def _fill(self, view: View, wanted: Tensor, marks: Tensor | None = None) -> kernels.Marked | None:
        """Trades; gives the accounts as they are marked where `marks` are given and the trader can do both at once."""
        market, trade, marked = self.market, self.trade, None
        shared = (view.bar, market.fill_price, market.tradable, self._volume)
        account = (view.cash, view.positions, wanted)
        if trade.way == "shares":
            done, marked = self._trader.trade_shares(*account, *shared, marks, whole=trade.whole)
        elif trade.way == "weights":
            done, marked = self._trader.trade_to_weights(*account, *shared, marks)
        else:
            held = view.positions[:, trade.asset]
            stay = held / trade.size if trade.by_units else held.sign()
            done = targets.trade_to_position(
                view.cash,
                view.positions,
                torch.where(wanted.isnan(), stay, wanted),
                torch.full_like(view.bar, trade.asset),
                *shared,
                self.rates,
                self.margin,
                size=trade.size,
                by_units=trade.by_units,
            )
        view.cash, view.positions, view.cost, view.turnover, view.traded = done
        return marked

    def _exit_and_fill(self, view: View, wanted: Tensor, exits: Any) -> None:
        view.cost, view.turnover = torch.zeros_like(view.cost), torch.zeros_like(view.turnover)
        view.traded = torch.zeros_like(view.traded)
        self._exit(view, exits(view))
        cost, turnover, traded = view.cost, view.turnover, view.traded
        self._fill(view, wanted)
        view.cost, view.turnover, view.traded = view.cost + cost, view.turnover + turnover, view.traded + traded

    def _exit(self, view: View, price: Tensor) -> None:
        """Closes the position at a price inside the bar, where one is given."""
        leaving = self._chosen & price.isfinite()[:, None]
        prices = torch.where(leaving, price[:, None], view.close)
        volume = None if self._volume is None else self._volume[view.bar].double()
        self._closed(view, kernels.close_at(view.cash, view.positions, leaving, prices, volume, self.rates), prices)

    def _close(self, view: View, who: Tensor | None, ends: Tensor | None) -> None:
        """Closes ended assets everywhere, or everything that trades in some accounts, at the bar's close."""
        market = self.market
        closed = kernels.close_positions(
            view.cash,
            view.positions,
            who,
            ends,
            view.bar,
            market.close,
            market.tradable,
            self._volume,
            self.rates,
        )
        self._closed(view, closed, view.close)

    def _closed(self, view: View, closed: kernels.Traded, prices: Tensor) -> None:
        view.cash, view.positions = closed.cash, closed.positions
        view.cost = view.cost + closed.cost
        view.traded = view.traded + closed.traded
        before = torch.where(view.value_before > 0, view.value_before, torch.inf)
        view.turnover = view.turnover + (closed.traded.abs() * prices).sum(-1) / before


def _trader(rates: CostRates, margin: Margin, device: torch.device) -> Any:
    """What trades and marks: on NVIDIA's GPUs, where Triton is there, kernels written for them."""
    if device.type == "cuda" and find_spec("triton") is not None:
        from alphaswarm_rl.market import kernels_triton

        return kernels_triton.Trader(rates, margin, device)
    return PlainTrader(rates, margin)


class PlainTrader:
    """Trades and marks in plain torch, one after the other; the twin of `kernels_triton.Trader`.

    Args:
        rates: What trading costs.
        margin: What may be owed.
    """

    def __init__(self, rates: CostRates, margin: Margin) -> None:
        self._rates, self._margin = rates, margin

    def trade_shares(
        self,
        cash: Tensor,
        positions: Tensor,
        orders: Tensor,
        time: Tensor,
        prices: Tensor,
        tradable: Tensor,
        volume: Tensor | None,
        marks: Tensor | None = None,
        *,
        whole: bool,
    ) -> tuple[kernels.Traded, None]:
        """Fills orders in units; the marks are left for later."""
        market = (time, prices, tradable, volume, self._rates)
        return kernels.trade_shares(cash, positions, orders, *market, whole=whole), None

    def trade_to_weights(
        self,
        cash: Tensor,
        positions: Tensor,
        weights: Tensor,
        time: Tensor,
        prices: Tensor,
        tradable: Tensor,
        volume: Tensor | None,
        marks: Tensor | None = None,
    ) -> tuple[kernels.Traded, None]:
        """Trades to target weights; the marks are left for later."""
        market = (time, prices, tradable, volume, self._rates, self._margin)
        return targets.trade_to_weights(cash, positions, weights, *market), None

    def mark(self, cash: Tensor, positions: Tensor, time: Tensor, marks: Tensor) -> kernels.Marked:
        """Marks."""
        return kernels.mark(cash, positions, time, marks, self._rates, self._margin)

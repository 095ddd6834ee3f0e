"""One account at Backtrader's broker, stepped from outside.

Backtrader calls a strategy from a loop of its own, so that loop has a thread: at each bar it hands over the account and
waits for the next orders. Nothing runs at the same time: whoever steps waits for the loop, and the loop for whoever
steps.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime
from queue import SimpleQueue
from typing import Any

import backtrader as bt
import numpy as np

from alphaswarm_rl.core.types import Array
from alphaswarm_rl.core.view import View
from alphaswarm_rl.execution.decision import Decision
from alphaswarm_rl.execution.engine import BacktestRequest, EngineSession
from alphaswarm_rl.market.costs import SPARE_CASH, CostRates, affordable, charge, fee
from alphaswarm_rl.market.market import average_cost
from alphaswarm_rl.market.sizing import SizedOrders, size_orders
from alphaswarm_rl.market.trade_log import TradeLog
from alphaswarm_rl.market.trades import fees_by_part

#: Backtrader's volume where costs do not look at it.
_ANY_VOLUME = float("inf")


@dataclass(frozen=True, eq=False)
class _Held:
    """The broker's account after a bar."""

    cash: float
    positions: Array


@dataclass(frozen=True, eq=False)
class _Percents:
    """What is ordered: parts of the broker's value by asset, and the prices at which they were worked out."""

    percents: dict[int, float]
    prices: Array


class BacktraderSession(EngineSession):
    """One account at Backtrader's broker.

    Args:
        request: Bars and rules.
        account: The account, changed in place.
    """

    def __init__(self, request: BacktestRequest, account: View) -> None:
        super().__init__(request, account)
        self._rates = request.costs.rates(request.market.panel.periods_per_year)
        self._to_broker: SimpleQueue[_Percents | None] = SimpleQueue()
        self._from_broker: SimpleQueue[_Held | BaseException] = SimpleQueue()
        self._thread = threading.Thread(target=self._loop, name="backtrader", daemon=True)
        self._thread.start()
        self._answer()  # the first bar: nothing is held yet

    def _play(self, decision: Decision | None) -> None:
        """One bar of Backtrader's loop."""
        view = self.account
        if self.logs:
            self.log = TradeLog(view)
            stages = len(self.request.stages)
            nothing = np.full_like(view.positions, np.nan)
            self.log.targets = [nothing] * stages if decision is None else list(decision.trace)
            if self.request.limits:
                none = np.full((1, len(self.request.limits)), np.nan)
                self.log.measured = [none] if decision is None or not decision.measured else list(decision.measured)
        self._to_broker.put(self._sized(decision))
        held = self._answer()
        self._take_over(held)
        if self.log is not None:
            self.log.ordered = view.traded.copy()

    def close(self) -> None:
        """Ends Backtrader's loop."""
        self._to_broker.put(None)
        self._thread.join()

    def _sized(self, decision: Decision | None) -> _Percents:
        """The orders that the decision makes, as the parts of the value that positions shall have after them."""
        view = self.account
        close, value = view.close, float(view.value[0])
        assert self.request.sizing is not None
        if decision is None or value <= 0:
            self.sized = SizedOrders(np.zeros(close.shape), np.zeros(close.shape, np.int8))
            return _Percents({}, close[0])
        tradable = view.market.tradable[view.bar]
        limits = (self._rates, self.request.margin, self.request.sizing)
        self.sized = size_orders(view.cash, view.positions, decision.targets, close, tradable, *limits)
        orders = self.sized.orders[0]
        goals = view.positions[0] + orders
        ordered = np.flatnonzero(orders)
        return _Percents({int(asset): float(goals[asset] * close[0, asset] / value) for asset in ordered}, close[0])

    def _answer(self) -> _Held:
        answer = self._from_broker.get()
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _take_over(self, held: _Held) -> None:
        """The broker's cash and positions as the account at the next bar."""
        view, market = self.account, self.request.market
        view.bar += 1
        view.value_before[:] = view.value
        view.traded[0] = held.positions - view.positions[0]
        view.positions[0], view.cash[0] = held.positions, held.cash
        price = view.fill_price
        commission, spread, _ = fees_by_part(self._rates, view.traded, price, None)
        view.cost[:] = (commission + spread).sum(axis=-1)
        before = np.where(view.value_before > 0, view.value_before, np.inf)
        view.turnover[:] = (np.abs(view.traded) * price).sum(axis=-1) / before
        view.carry[:] = 0.0
        view.value[:] = view.cash + (view.positions * market.close[view.bar]).sum(axis=-1)
        np.maximum(view.peak, view.value, out=view.peak)
        if view.average_cost is not None:
            view.average_cost[:] = average_cost(view)

    def _loop(self) -> None:
        """Backtrader's loop, in its thread; what it raises is raised by the next step."""
        try:
            self._cerebro().run(stdstats=False)
        except BaseException as error:  # noqa: BLE001  (it belongs to whoever steps)
            self._from_broker.put(error)

    def _cerebro(self) -> Any:
        request, market = self.request, self.request.market
        cheats = market.fill.shows_next_open
        cerebro = bt.Cerebro(cheat_on_open=cheats, broker_coo=cheats)
        broker = _Broker(self._rates, market.tradable[request.first_bar : request.last_bar + 1])
        # Whatever an order costs is paid at its fill: it is not tried before.
        broker.set_checksubmit(False)
        broker.set_cash(float(self.account.cash[0]))
        cerebro.broker = broker
        rows = slice(int(self.account.bar[0]), request.last_bar + 1)
        stamps = market.panel.timestamps[rows].astype("datetime64[us]").astype(datetime)
        numbers = [bt.date2num(stamp.replace(tzinfo=UTC)) for stamp in stamps]
        for asset, symbol in enumerate(market.panel.assets):
            feed = _Feed(numbers, market.fill_price[rows, asset], market.close[rows, asset])
            feed.column = asset
            cerebro.adddata(feed, name=symbol)
            broker.addcommissioninfo(_Fees(self._rates), name=symbol)
        cerebro.addstrategy(_Handover, inbox=self._to_broker, outbox=self._from_broker, at_open=cheats)
        return cerebro


class _Feed(bt.feed.DataBase):  # type: ignore[misc]
    """Opens and closes of one asset; 0 where there is none."""

    def __init__(self, numbers: list[float], opens: Array, closes: Array) -> None:
        super().__init__()
        self._rows = zip(numbers, opens.tolist(), closes.tolist(), strict=True)

    def _load(self) -> bool:
        row = next(self._rows, None)
        if row is None:
            return False
        number, first, last = row
        lines = self.lines
        lines.datetime[0], lines.open[0], lines.close[0] = number, first, last
        lines.high[0], lines.low[0] = max(first, last), min(first, last)
        lines.volume[0] = lines.openinterest[0] = 0.0
        return True


class _Fees(bt.CommInfoBase):  # type: ignore[misc]
    """The costs of a fill by our formulas, and sizes in fractions."""

    params = (("stocklike", True), ("commtype", bt.CommInfoBase.COMM_PERC), ("percabs", True))

    def __init__(self, rates: CostRates) -> None:
        super().__init__()
        self._rates = rates

    def _getcommission(self, size: float, price: float, pseudoexec: bool) -> float:
        return fee(self._rates, size, price, _ANY_VOLUME).total

    def getsize(self, price: float, cash: float) -> float:
        """Units for that money, in fractions."""
        return cash / price


class _Broker(bt.brokers.BackBroker):  # type: ignore[misc]
    """Backtrader's broker, by three rules of ours.

    What an order is sized by is the last known price; sells come before buys, the most valuable buy first; and an order
    is filled as far as it can be paid for.
    """

    def __init__(self, rates: CostRates, tradable: Array) -> None:
        super().__init__()
        self.pending: deque[Any]
        self._rates, self._tradable = rates, tradable
        #: The last known prices, while orders are made.
        self.known: dict[Any, float] = {}
        self._spent = False
        self.p.filler = self._filled

    def next(self) -> None:
        """One bar: orders in their order, and what is left of them afterwards is dropped."""
        self._spent = False
        self.pending = deque(sorted(self.pending, key=_rank))
        super().next()
        for order in list(self.pending):
            self.cancel(order)

    def get_value(self, datas: Any = None, mkt: bool = False, lever: bool = False) -> float:
        """The value of the account, or of one position at the last known price."""
        if datas is not None and len(datas) == 1 and datas[0] in self.known:
            return float(self.positions[datas[0]].size * self.known[datas[0]])
        return float(super().get_value(datas, mkt, lever))

    getvalue = get_value

    def _filled(self, order: Any, price: float, ago: int) -> float:
        """How many units of an order are filled."""
        data, size = order.data, abs(order.executed.remsize)
        bar = len(data) - 1
        if not self._tradable[bar, data.column] or price <= 0:
            return 0.0
        if not order.isbuy():
            held = max(self.positions[data].size, 0.0)
            sold: float = min(size, held)
            return sold if sold * price > fee(self._rates, -sold, price, _ANY_VOLUME).total else 0.0
        if self._spent:
            return 0.0
        if charge(self._rates, size, price, _ANY_VOLUME) <= self.cash * (1.0 - SPARE_CASH):
            return float(size)
        self._spent = True  # an order that is cut is the last
        return float(affordable(self._rates, self.cash, price, _ANY_VOLUME, whole=False))


class _Handover(bt.Strategy):  # type: ignore[misc]
    """Hands the account over at each bar, and orders what it is given."""

    params = (("inbox", None), ("outbox", None), ("at_open", False))

    def __init__(self) -> None:
        self._ordered: _Percents | None = None

    def next(self) -> None:
        """The bar is over: the account goes out, the next orders come in."""
        positions = np.array([self.broker.positions[data].size for data in self.datas], np.float64)
        self.p.outbox.put(_Held(float(self.broker.cash), positions))
        self._ordered = self.p.inbox.get()
        if self._ordered is None:
            self.env.runstop()
        elif not self.p.at_open:
            self._order()

    def next_open(self) -> None:
        """The next bar opens: orders are made now, as they were decided."""
        if self._ordered is not None:
            self._order()

    def _order(self) -> None:
        assert self._ordered is not None
        broker, prices = self.broker, self._ordered.prices
        broker.known = dict(zip(self.datas, prices.tolist(), strict=True))
        for asset, percent in self._ordered.percents.items():
            self.order_target_percent(data=self.datas[asset], target=percent, price=float(prices[asset]))
        broker.known = {}
        self._ordered = None


def _rank(order: Any) -> tuple[bool, float]:
    """Sells first, then buys, the most valuable first."""
    return (order.isbuy(), -abs(order.executed.remsize) * order.data.open[0] if order.isbuy() else 0.0)

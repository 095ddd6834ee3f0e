"""One decision of one account, told with the scalar Book: what the decision step must do, in the order it happens."""

from dataclasses import dataclass, field

import numpy as np

from alphaswarm_rl.market.book import Book
from alphaswarm_rl.market.quotes import Quotes


@dataclass
class Step:
    """What one decision did to an account; `closed` holds the units that were closed by force, by reason."""

    assets: int
    cost: float = 0.0
    turnover: float = 0.0
    carry: float = 0.0
    called: bool = False
    closed: dict = field(default_factory=dict)

    def __post_init__(self):
        self.traded, self.bought_at = np.zeros(self.assets), np.zeros(self.assets)

    def add(self, fills, equity):
        """Counts fills of an account that was worth `equity`."""
        for fill in fills:
            self.cost += fill.cost
            self.traded[fill.asset] += fill.quantity
            self.turnover += abs(fill.quantity) * fill.price / equity if equity > 0 else 0.0
            if fill.reason != "order":
                self.closed.setdefault(fill.reason, np.zeros(self.assets))[fill.asset] += fill.quantity


class BookReplay:
    """A Book on a panel, moved on bar by bar.

    Args:
        panel: The bars.
        fill: When orders fill.
        trade: What targets mean.
        book: The account.
        bar: The bar of its first decision.
        sizing: By which rules weights become orders when a decision is made; None: they are traded to at the fill.
    """

    def __init__(self, panel, fill, trade, book: Book, bar: int, sizing=None):
        self.sizing = sizing
        self.panel, self.fill, self.trade, self.book, self.bar = panel, fill, trade, book, bar
        self.value = self.peak = book.cash
        self.average_cost = np.zeros(panel.num_assets)

    def quotes(self, prices):
        """The current bar at these prices."""
        bar, tradable = self.bar, self.panel.tradable[self.bar].copy()
        if not self.fill.lag:
            tradable &= (self.panel.last_bar != bar) | (bar == self.panel.num_bars - 1)
        return Quotes(np.nan_to_num(prices[bar]).tolist(), tradable.tolist(), self.panel.volume[bar].tolist())

    def step(self, target, exit_price=np.nan) -> Step:
        """One decision: numbers by asset or for one, and the price at which a bracket closes inside the next bar."""
        step, panel, trade, book = Step(self.panel.num_assets), self.panel, self.trade, self.book
        if self.sizing is not None:
            target = np.array(book.size_orders(target.tolist(), self.quotes(panel.close), self.sizing)[0])
        if not self.fill.lag:
            self._order(step, target)
        self.bar += 1
        splits = panel.splits[self.bar]
        book.adjust(panel.dividends[self.bar].tolist(), splits.tolist())
        self.average_cost /= splits
        if self.fill.lag and (trade.way == "shares" or self.sizing is not None):
            target = target * splits
        if self.fill.lag and trade.way == "position" and trade.by_units:
            target = target * splits[trade.asset]
        exit_first = self.fill.name == "next_close"
        if exit_first:
            self._exit(step, exit_price)
        if self.fill.lag:
            self._order(step, target)
        if not exit_first:
            self._exit(step, exit_price)
        close = self.quotes(panel.close)
        ending = np.flatnonzero((panel.last_bar == self.bar) & (self.bar < panel.num_bars - 1))
        step.add(book.close(ending.tolist(), close, "asset_end"), self.value)
        step.carry = book.accrue(close.prices)
        step.called = book.called(close.prices)
        if step.called and book.margin.lends:
            step.add(book.liquidate(close, "margin_call"), self.value)
        self.value = book.equity(close.prices)
        self.peak = max(self.peak, self.value)
        self.average_cost[np.array(book.positions) <= 0] = 0.0
        return step

    def _order(self, step, target):
        """Trades to the target at the bar's fill price."""
        trade, book = self.trade, self.book
        quotes = self.quotes(self.panel.open if self.fill.price == "open" else self.panel.close)
        equity, before = book.equity(quotes.prices), np.array(book.positions)
        if trade.way == "shares":
            fills = book.trade_shares(target.tolist(), quotes, whole=trade.whole)
        elif self.sizing is not None:
            fills = book.trade_units(target.tolist(), quotes, lot=self.sizing.lot)
        elif trade.way == "weights":
            fills = book.trade_to_weights(target.tolist(), quotes)
        elif np.isnan(target):
            fills = ()
        else:
            size = {"units" if trade.by_units else "fraction": trade.size}
            fills = book.trade_to_position(trade.asset, float(target), quotes, **size)
        step.add(fills, equity)
        for fill in fills:
            if fill.quantity > 0 and book.positions[fill.asset] > 0:
                paid = self.average_cost[fill.asset] * before[fill.asset] + fill.quantity * fill.price
                self.average_cost[fill.asset] = paid / book.positions[fill.asset]

    def _exit(self, step, price):
        """Closes the asset's position at a price inside the bar, where there is one."""
        if np.isfinite(price):
            prices = [price] * self.panel.num_assets
            quotes = Quotes(prices, volume=self.panel.volume[self.bar].tolist())
            step.add(self.book.close([self.trade.asset], quotes, "bracket"), self.value)

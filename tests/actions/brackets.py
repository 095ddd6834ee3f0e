"""Brackets in an environment, and the same story told by one plain account, in the order in which things happen."""

import math

import numpy as np

from alphaswarm_rl.actions.bracket import Bracket
from alphaswarm_rl.envs.making import make_env
from alphaswarm_rl.market.book import Book
from alphaswarm_rl.market.costs import CostModel
from alphaswarm_rl.market.margin import CASH_ACCOUNT, Margin
from alphaswarm_rl.market.quotes import Quotes
from tests.actions.views import ACCOUNT, FREE, panel_of

HOLD, CLOSE = 0, 1
#: One stop-loss at 5 % and one take-profit at 10 %: the entries are these.
LONG, SHORT = 2, 3
START = 1000.0


def bars_panel(bars, **columns):
    prices = dict(zip(("open", "high", "low", "close"), np.array(bars, float).T[..., None], strict=True))
    return panel_of(prices.pop("close"), **prices, **columns)


def in_environment(bars, actions, fill, *, short, kwargs, costs, columns):
    """Cash, value, cost and turnover after each step."""
    env = make_env(
        "stock_trading",
        panel=bars_panel(bars, **columns),
        action={"class": "bracket", "kwargs": {**kwargs, "short": short}},
        observation=ACCOUNT,
        fill=fill,
        initial_cash=START,
        costs=costs,
        margin={"initial": 0.5, "maintenance": 0.25} if short else None,
        episode_bars=None,
    )
    env.reset()
    infos = [env.step(np.array([action]))[4] for action in actions]
    return [[info[name][0] for name in ("cash", "portfolio_value", "cost", "turnover")] for info in infos]


class PlainAccount:
    """A Book with a bracket around its only position."""

    def __init__(self, *, short, kwargs, costs):
        config = Bracket.Config(**kwargs, short=short)
        self.book = Book(START, [0.0], CostModel(**costs), Margin() if short else CASH_ACCOUNT)
        self.fraction = config.fraction
        sides = (1, -1) if short else (1,)
        self.entries = [
            (side, stop, take) for side in sides for stop in config.stop_losses for take in config.take_profits
        ]
        self.stop = self.take = math.nan
        self.fills = []

    @property
    def side(self):
        return int(np.sign(self.book.positions[0]))

    def order(self, action, price, tradable, side_then):
        """An order at a price; `side_then` is the side that was held when it was decided."""
        if action == HOLD or (action > CLOSE and self.entries[action - 2][0] == side_then):
            return
        side, stop, take = (0, 0.0, 0.0) if action == CLOSE else self.entries[action - 2]
        fills = self.book.trade_to_position(0, side, Quotes([price], [tradable]), fraction=self.fraction)
        self.fills += fills
        if fills and self.side:
            self.stop, self.take = price - self.side * price * stop, price + self.side * price * take

    def inside(self, first, high, low):
        """What a bar does to the position."""
        side = self.side
        if side == 0:
            return
        worst, best = (low, high) if side > 0 else (high, low)
        beyond = (lambda price: price <= self.stop) if side > 0 else (lambda price: price >= self.stop)
        if beyond(first):
            price = first
        elif beyond(worst):
            price = self.stop
        elif (best >= self.take) if side > 0 else (best <= self.take):
            price = self.take
        else:
            return
        self.fills += self.book.close([0], Quotes([price]), "bracket")


def on_book(bars, actions, fill, *, short, kwargs, costs, tradable=None):
    account = PlainAccount(short=short, kwargs=kwargs, costs=costs)
    tradable = [True] * len(bars) if tradable is None else tradable
    rows = []
    for t, action in enumerate(actions):
        first, high, low, close = bars[t + 1]
        side, account.fills = account.side, []
        if fill == "same_close":
            account.order(action, bars[t][3], tradable[t], side)
        if fill == "next_open":
            account.order(action, first, tradable[t + 1], side)
        if tradable[t + 1]:
            account.inside(first, high, low)
        if fill == "next_close":
            account.order(action, close, tradable[t + 1], side)
        account.book.accrue([close])
        rows.append([account.book.cash, account.book.equity([close]), sum(fill.cost for fill in account.fills)])
    return rows


def worked(bars, actions, *, fill="next_open", short=False, costs=FREE, columns=None, **kwargs):
    """Cash and value after each step, the same in the environment and on the book."""
    kwargs = {"stop_losses": [0.05], "take_profits": [0.1], **kwargs}
    seen = in_environment(bars, actions, fill, short=short, kwargs=kwargs, costs=costs, columns=columns or {})
    if not columns:
        plain = on_book(bars, actions, fill, short=short, kwargs=kwargs, costs=costs)
        np.testing.assert_allclose([row[:3] for row in seen], plain, rtol=1e-9, atol=1e-7)
    return [tuple(row[:2]) for row in seen]

"""What a part of an environment sees: n accounts and their market at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from alphaswarm_rl.market.market import Market

#: Arrays that belong to the environments and go along with their rows.
ARRAYS = (
    "bar",
    "start",
    "last",
    "cash",
    "positions",
    "value",
    "value_before",
    "peak",
    "cost",
    "carry",
    "turnover",
    "traded",
    "average_cost",
    "called",
    "terminated",
    "truncated",
    "improper_stop",
    "reward",
    "action",
)


class View:
    """N accounts at the close of bar `bar[i]`, after the step that led there.

    A part may read everything here and write nothing. Of the market it may look at rows up to `bar` and no further:
    `view.close` and `view.features` are that row, `view.take` and `view.take_window` copy from tables by bar. After a
    reset, before the first step, `value_before` is the value, and what a step leaves behind is 0.

    Attributes:
        xp: Array functions: NumPy, or `arrays_torch.TorchArrays` with the same names.
        n: Number of environments in this view.
        market: The market's tables by bar.
        initial_cash: What an episode starts with.
        bar: Index of the bar whose close is known, (n,) int64.
        start: Bar of the episode's first decision, (n,) int64.
        last: Bar at which the episode runs out of bars, (n,) int64.
        cash: Money, (n,) float64.
        positions: Units, (n, A) float64.
        value: Equity at the close, (n,) float64.
        value_before: Equity at the close before, (n,) float64.
        peak: Highest equity of the episode so far, (n,) float64.
        cost: Commission, spread and impact of the step in money, (n,) float64.
        carry: Borrow and funding of the step in money, (n,) float64.
        turnover: Value traded in the step over the equity before, (n,) float64.
        traded: Units bought in the step, negative when sold, (n, A) float64.
        average_cost: Average price of the units held, (n, A) float64; None where no part asks for it.
        called: Whether the account fell below its maintenance margin in the step, (n,) bool.
        terminated: Whether the episode ended by failure, (n,) bool.
        truncated: Whether it ended without, (n,) bool.
        improper_stop: Whether that failure was one of the agent's, (n,) bool.
        reward: Sum of the ordinary reward terms of the step, (n,) float64; for terms that settle.
        action: The agent's action, (n, ...).
    """

    __slots__ = (*ARRAYS, "initial_cash", "market", "n", "xp")

    bar: Any
    start: Any
    last: Any
    cash: Any
    positions: Any
    value: Any
    value_before: Any
    peak: Any
    cost: Any
    carry: Any
    turnover: Any
    traded: Any
    called: Any
    terminated: Any
    truncated: Any
    improper_stop: Any
    reward: Any

    def __init__(self, market: Market, initial_cash: float, n: int) -> None:
        self.xp = xp = market.backend.xp
        self.market = market
        self.initial_cash = initial_cash
        self.n = n
        self.bar = xp.zeros(n, dtype=xp.int64)
        self.start = xp.zeros(n, dtype=xp.int64)
        self.last = xp.zeros(n, dtype=xp.int64)
        for name in ("cash", "value", "value_before", "peak", "cost", "carry", "turnover", "reward"):
            setattr(self, name, xp.zeros(n, dtype=xp.float64))
        for name in ("positions", "traded"):
            setattr(self, name, xp.zeros((n, market.assets), dtype=xp.float64))
        for name in ("called", "terminated", "truncated", "improper_stop"):
            setattr(self, name, xp.zeros(n, dtype=xp.bool_))
        self.average_cost: Any = None
        self.action: Any = None

    @classmethod
    def of(cls, market: Market, initial_cash: float, arrays: Mapping[str, Any]) -> View:
        """A view that holds these arrays, by name; the others of `ARRAYS` are None."""
        view = cls.__new__(cls)
        view.xp, view.market, view.initial_cash, view.n = market.backend.xp, market, initial_cash, len(arrays["bar"])
        for name in ARRAYS:
            setattr(view, name, arrays.get(name))
        return view

    def rows(self, indices: Any) -> View:
        """A view of some of the environments, with arrays of its own."""
        return View.of(self.market, self.initial_cash, {name: array[indices] for name, array in self.arrays().items()})

    def arrays(self) -> dict[str, Any]:
        """The arrays of its accounts by name, without those that are None."""
        named = ((name, getattr(self, name)) for name in ARRAYS)
        return {name: array for name, array in named if array is not None}

    @property
    def close(self) -> Any:
        """Closing prices, (n, A); 0 where an asset has none yet."""
        return self.market.close[self.bar]

    @property
    def fill_price(self) -> Any:
        """Where the step's orders were filled, (n, A)."""
        behind = 1 - self.market.fill.lag
        return self.market.fill_price[self.xp.maximum(self.bar - behind, self.xp.zeros_like(self.bar))]

    @property
    def features(self) -> Any:
        """The features of the bar, (n, A * K), asset after asset."""
        return self.market.features[self.bar]

    @property
    def steps(self) -> Any:
        """Decisions of the episode so far, (n,) int64."""
        return self.bar - self.start

    @property
    def weights(self) -> Any:
        """Value of each position over the equity, (n, A); 0 where there is no equity."""
        alive = self.value > 0
        return self.positions * self.close / self.xp.where(alive, self.value, self.xp.inf)[:, None]

    @property
    def drawdown(self) -> Any:
        """Relative distance below the peak, (n,)."""
        return 1.0 - self.value / self.peak

    @property
    def portfolio_return(self) -> Any:
        """Relative change of the equity in the step, (n,); 0 where there was none before."""
        before = self.xp.where(self.value_before > 0, self.value_before, self.xp.inf)
        return (self.value - self.value_before) / before

    def take(self, table: Any, out: Any) -> None:
        """Writes row `bar[i]` of a table (T, C) to `out[i]`, (n, C)."""
        self.market.backend.take(table, self.bar, out)

    def take_columns(self, table: Any, columns: Any, out: Any) -> None:
        """Writes some columns of row `bar[i]` of a table (T, C) to `out[i]`, (n, len(columns))."""
        self.market.backend.take_columns(table, self.bar, columns, out)

    def take_growth(self, table: Any, out: Any) -> None:
        """Writes the growth of a table (T, C) since the episode's first bar to `out`, (n, C); 0 where undefined."""
        self.market.backend.take_growth(table, self.bar, self.start, out)

    def take_weights(self, out: Any, *, cash: bool = False) -> None:
        """Writes `weights` to `out`, (n, A); with cash its weight before them, (n, 1 + A)."""
        held = (self.positions, self.market.close, self.bar, self.value, out)
        self.market.backend.take_weights(*held, self.cash if cash else None)

    def take_window(self, table: Any, length: int, out: Any) -> None:
        """Writes the `length` rows up to `bar[i]` of a table (T, C), oldest first, to `out[i]`, (n, length * C)."""
        self.market.backend.take_window(table, self.bar, length, out)


def average_cost(view: View) -> Any:
    """The average price of the units held after the view's step, (n, A): weighted by units, unchanged by sells.

    A split divides it as it multiplies units. Fills at the new bar come after its splits, fills at the old one before.
    """
    xp, market, average, positions = view.xp, view.market, view.average_cost, view.positions
    split = None if market.splits is None else market.splits[view.bar]
    if split is not None and market.fill.lag:
        average = average / split
    elif split is not None:
        positions = positions / split
    held, bought = positions > 0, xp.where(view.traded > 0, view.traded, 0.0)
    total = average * (positions - bought) + bought * view.fill_price
    after = xp.where(held, xp.where(bought > 0, total / xp.where(held, positions, 1.0), average), 0.0)
    return after if split is None or market.fill.lag else after / split

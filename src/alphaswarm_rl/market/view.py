"""What a part of an environment sees: n accounts and their market at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from alphaswarm_rl.core.types import AnyArray, AnyArrays
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
    """N accounts at the close of bar `bar[i]`, after the step that led there; `core.view.View` says what each array is.

    Arrays are NumPy's or torch's, those of the market's backend. `average_cost` is None where no part has a use for it,
    and `action` before the first step.
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
    def of(cls, market: Market, initial_cash: float, arrays: Mapping[str, AnyArray]) -> View:
        """A view that holds these arrays, by name; the others of `ARRAYS` are None."""
        view = cls.__new__(cls)
        view.xp, view.market, view.initial_cash, view.n = market.backend.xp, market, initial_cash, len(arrays["bar"])
        for name in ARRAYS:
            setattr(view, name, arrays.get(name))
        return view

    def rows(self, indices: AnyArray) -> View:
        """A view of some of the environments, with arrays of its own."""
        return View.of(self.market, self.initial_cash, {name: array[indices] for name, array in self.arrays().items()})

    def arrays(self) -> AnyArrays:
        """The arrays of its accounts by name, without those that are None."""
        named = ((name, getattr(self, name)) for name in ARRAYS)
        return {name: array for name, array in named if array is not None}

    @property
    def close(self) -> AnyArray:
        """Closing prices, (n, A); 0 where an asset has none yet."""
        return self.market.close[self.bar]

    @property
    def fill_price(self) -> AnyArray:
        """Where the step's orders were filled, (n, A)."""
        behind = 1 - self.market.fill.lag
        return self.market.fill_price[self.xp.maximum(self.bar - behind, self.xp.zeros_like(self.bar))]

    @property
    def features(self) -> AnyArray:
        """The features of the bar, (n, A * K), asset after asset."""
        return self.market.features[self.bar]

    @property
    def steps(self) -> AnyArray:
        """Decisions of the episode so far, (n,) int64."""
        return self.bar - self.start

    @property
    def weights(self) -> AnyArray:
        """Value of each position over the equity, (n, A); 0 where there is no equity."""
        alive = self.value > 0
        return self.positions * self.close / self.xp.where(alive, self.value, self.xp.inf)[:, None]

    @property
    def drawdown(self) -> AnyArray:
        """Relative distance below the peak, (n,)."""
        return 1.0 - self.value / self.peak

    @property
    def portfolio_return(self) -> AnyArray:
        """Relative change of the equity in the step, (n,); 0 where there was none before."""
        before = self.xp.where(self.value_before > 0, self.value_before, self.xp.inf)
        return (self.value - self.value_before) / before

    def take(self, table: AnyArray, out: AnyArray) -> None:
        """Writes row `bar[i]` of a table (T, C) to `out[i]`, (n, C)."""
        self.market.backend.take(table, self.bar, out)

    def take_columns(self, table: AnyArray, columns: AnyArray, out: AnyArray) -> None:
        """Writes some columns of row `bar[i]` of a table (T, C) to `out[i]`, (n, len(columns))."""
        self.market.backend.take_columns(table, self.bar, columns, out)

    def take_growth(self, table: AnyArray, out: AnyArray) -> None:
        """Writes the growth of a table (T, C) since the episode's first bar to `out`, (n, C); 0 where undefined."""
        self.market.backend.take_growth(table, self.bar, self.start, out)

    def take_weights(self, out: AnyArray, *, cash: bool = False) -> None:
        """Writes `weights` to `out`, (n, A); with cash its weight before them, (n, 1 + A)."""
        held = (self.positions, self.market.close, self.bar, self.value, out)
        self.market.backend.take_weights(*held, self.cash if cash else None)

    def take_window(self, table: AnyArray, length: int, out: AnyArray) -> None:
        """Writes the `length` rows up to `bar[i]` of a table (T, C), oldest first, to `out[i]`, (n, length * C)."""
        self.market.backend.take_window(table, self.bar, length, out)


def average_cost(view: View) -> AnyArray:
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

"""What the parts of a trading environment see: n accounts, their market and its panel, at one moment.

Parts (rewards, observations, actions, terminations, portfolio stages) read a `View`, so that the same few lines run on
NumPy arrays and on torch tensors. `View` is a class, not a protocol, because it is nothing but its arrays and both
backends use it as it is: one object per step that all parts share. NumPy environments make it once and fill it in place
at every step; torch environments make it of the tensors of each step (`View.of`). What it refers to are protocols
(`Panel`, `MarketTables`, `Backend`, `ArrayFunctions`), whose classes are in `market` and `arrays`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from alphaswarm_rl.core.types import Array, BackendArray, NamedArrays

if TYPE_CHECKING:
    import numpy as np

Function: TypeAlias = "Callable[..., BackendArray]"


class ArrayFunctions(Protocol):
    """The array functions that parts may use, under NumPy's names and with NumPy's meaning."""

    float32: object
    float64: object
    int64: object
    bool_: object
    inf: float
    nan: float
    zeros: Function
    ones: Function
    full: Function
    zeros_like: Function
    arange: Function
    where: Function
    maximum: Function
    minimum: Function
    abs: Function
    sign: Function
    sqrt: Function
    log: Function
    log1p: Function
    exp: Function
    expm1: Function
    isfinite: Function
    isnan: Function
    floor: Function
    trunc: Function
    clip: Function
    sum: Function
    max: Function
    sort: Function
    mean: Function
    cumsum: Function
    any: Function
    all: Function
    stack: Function
    concatenate: Function


class Backend(Protocol):
    """An array library: functions under NumPy's names, and reads of table rows.

    A table is (T, C), one row per bar. `bar` (n,) holds the row that each of n environments stands at. Results are
    written to `out`, cast on the way.
    """

    #: Array functions under NumPy's names.
    xp: Any

    def put(self, array: Array) -> BackendArray:
        """A NumPy array as an array of this library, on its device."""

    def take(self, table: BackendArray, bar: BackendArray, out: BackendArray) -> None:
        """Writes row `bar[i]` to `out[i]`."""

    def take_columns(self, table: BackendArray, bar: BackendArray, columns: BackendArray, out: BackendArray) -> None:
        """Writes the given columns of row `bar[i]` to `out[i]`."""

    def take_window(self, table: BackendArray, bar: BackendArray, length: int, out: BackendArray) -> None:
        """Writes the `length` rows up to `bar[i]`, oldest first, to `out[i]`, (n, length * C)."""

    def take_growth(self, table: BackendArray, bar: BackendArray, start: BackendArray, out: BackendArray) -> None:
        """Writes row `bar[i]` over row `start[i]` minus 1 to `out[i]`; 0 where the latter is not positive."""

    def take_weights(
        self,
        positions: BackendArray,
        prices: BackendArray,
        bar: BackendArray,
        value: BackendArray,
        out: BackendArray,
        cash: BackendArray | None = None,
    ) -> None:
        """Writes positions (n, C) times row `bar[i]` of the prices over the value (n,) to `out`; 0 without value.

        With cash (n,), `out` has one column more, the first, for the cash's part of the value.
        """

    def take_deviation(
        self, table: BackendArray, bar: BackendArray, length: int, weights: BackendArray, out: BackendArray
    ) -> None:
        """Writes the sample standard deviation of the sums of weights (n, C) times the `length` rows up to `bar[i]`."""

    def keep(self, chosen: BackendArray, bar: BackendArray, out: BackendArray) -> None:
        """Writes 0 to `out[i]` where row `bar[i]` of a table of booleans is false."""

    def limit_each(self, most: float, out: BackendArray) -> None:
        """Cuts every number of `out` (n, C) to [-most, most]."""

    def limit_sum(self, most: float, out: BackendArray) -> None:
        """Scales each row of `out` (n, C) so that its numbers sum to at most `most`, whatever their signs."""

    def softmax(self, chosen: BackendArray | None, bar: BackendArray, factor: float, out: BackendArray) -> None:
        """Replaces `out[i]` by the softmax of `factor` times it over what row `bar[i]` chooses; None chooses all.

        Where nothing is chosen it is 0.
        """


class Panel(Protocol):
    """The bars of A assets at T moments, as components read them; `market.panel.MarketPanel` says what each holds."""

    # Read-only: a panel never changes.
    @property
    def timestamps(self) -> Array: ...
    @property
    def assets(self) -> tuple[str, ...]: ...
    @property
    def close(self) -> Array: ...
    @property
    def open(self) -> Array | None: ...
    @property
    def high(self) -> Array | None: ...
    @property
    def low(self) -> Array | None: ...
    @property
    def volume(self) -> Array | None: ...
    @property
    def dividends(self) -> Array | None: ...
    @property
    def splits(self) -> Array | None: ...
    @property
    def adjusted(self) -> bool: ...
    @property
    def tradable(self) -> Array: ...
    @property
    def features(self) -> Array: ...
    @property
    def feature_names(self) -> tuple[str, ...]: ...
    @property
    def feature_from(self) -> Array: ...
    @property
    def market_features(self) -> Array: ...
    @property
    def market_feature_names(self) -> tuple[str, ...]: ...
    @property
    def periods_per_year(self) -> float: ...
    @property
    def bar_seconds(self) -> float: ...
    @property
    def stamp(self) -> str: ...
    @property
    def num_bars(self) -> int: ...
    @property
    def num_assets(self) -> int: ...
    @property
    def dtype(self) -> np.dtype[np.generic]: ...
    @property
    def known_at(self) -> Array: ...


class Fill(Protocol):
    """When orders fill; see `market.fills.FillPolicy`."""

    @property
    def lag(self) -> int: ...
    @property
    def price(self) -> str: ...


class MarketTables(Protocol):
    """What the market shows, by bar; see `market.market.Market`."""

    @property
    def panel(self) -> Panel: ...
    @property
    def fill(self) -> Fill: ...
    @property
    def backend(self) -> Backend: ...
    @property
    def assets(self) -> int: ...
    @property
    def turbulence(self) -> Any: ...
    @property
    def volume(self) -> Any: ...
    @property
    def dividends(self) -> Any: ...
    @property
    def splits(self) -> Any: ...
    @property
    def ends(self) -> Any: ...
    @property
    def close(self) -> BackendArray: ...
    @property
    def fill_price(self) -> BackendArray: ...
    @property
    def tradable(self) -> BackendArray: ...
    @property
    def features(self) -> BackendArray: ...
    @property
    def market_features(self) -> BackendArray: ...


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
        xp: Array functions under NumPy's names, of NumPy or of torch.
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
        average_cost: Average price of the units held, (n, A) float64; kept only where a part has `tracks_cost`.
        called: Whether the account fell below its maintenance margin in the step, (n,) bool.
        terminated: Whether the episode ended by failure, (n,) bool.
        truncated: Whether it ended without, (n,) bool.
        improper_stop: Whether that failure was one of the agent's, (n,) bool.
        reward: Sum of the ordinary reward terms of the step, (n,) float64; for terms that settle.
        action: The agent's action, (n, ...).
    """

    __slots__ = (*ARRAYS, "initial_cash", "market", "n", "xp")

    xp: ArrayFunctions
    market: MarketTables
    n: int
    initial_cash: float
    bar: BackendArray
    start: BackendArray
    last: BackendArray
    cash: BackendArray
    positions: BackendArray
    value: BackendArray
    value_before: BackendArray
    peak: BackendArray
    cost: BackendArray
    carry: BackendArray
    turnover: BackendArray
    traded: BackendArray
    average_cost: BackendArray
    called: BackendArray
    terminated: BackendArray
    truncated: BackendArray
    improper_stop: BackendArray
    reward: BackendArray
    action: BackendArray

    def __init__(self, market: MarketTables, initial_cash: float, n: int) -> None:
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
        self.average_cost = self.action = None

    @classmethod
    def of(cls, market: MarketTables, initial_cash: float, arrays: Mapping[str, BackendArray]) -> View:
        """A view that holds these arrays, by name; the others of `ARRAYS` are None."""
        view = cls.__new__(cls)
        view.xp, view.market, view.initial_cash, view.n = market.backend.xp, market, initial_cash, len(arrays["bar"])
        for name in ARRAYS:
            setattr(view, name, arrays.get(name))
        return view

    def rows(self, indices: BackendArray) -> View:
        """A view of some of the environments, with arrays of its own."""
        return View.of(self.market, self.initial_cash, {name: array[indices] for name, array in self.arrays().items()})

    def arrays(self) -> NamedArrays:
        """The arrays of its accounts by name, without those that are None."""
        named = ((name, getattr(self, name)) for name in ARRAYS)
        return {name: array for name, array in named if array is not None}

    @property
    def close(self) -> BackendArray:
        """Closing prices, (n, A); 0 where an asset has none yet."""
        return self.market.close[self.bar]

    @property
    def fill_price(self) -> BackendArray:
        """Where the step's orders were filled, (n, A)."""
        behind = 1 - self.market.fill.lag
        return self.market.fill_price[self.xp.maximum(self.bar - behind, self.xp.zeros_like(self.bar))]

    @property
    def features(self) -> BackendArray:
        """The features of the bar, (n, A * K), asset after asset."""
        return self.market.features[self.bar]

    @property
    def steps(self) -> BackendArray:
        """Decisions of the episode so far, (n,) int64."""
        return self.bar - self.start

    @property
    def weights(self) -> BackendArray:
        """Value of each position over the equity, (n, A); 0 where there is no equity."""
        alive = self.value > 0
        return self.positions * self.close / self.xp.where(alive, self.value, self.xp.inf)[:, None]

    @property
    def drawdown(self) -> BackendArray:
        """Relative distance below the peak, (n,)."""
        return 1.0 - self.value / self.peak

    @property
    def portfolio_return(self) -> BackendArray:
        """Relative change of the equity in the step, (n,); 0 where there was none before."""
        before = self.xp.where(self.value_before > 0, self.value_before, self.xp.inf)
        return (self.value - self.value_before) / before

    def take(self, table: BackendArray, out: BackendArray) -> None:
        """Writes row `bar[i]` of a table (T, C) to `out[i]`, (n, C)."""
        self.market.backend.take(table, self.bar, out)

    def take_columns(self, table: BackendArray, columns: BackendArray, out: BackendArray) -> None:
        """Writes some columns of row `bar[i]` of a table (T, C) to `out[i]`, (n, len(columns))."""
        self.market.backend.take_columns(table, self.bar, columns, out)

    def take_growth(self, table: BackendArray, out: BackendArray) -> None:
        """Writes the growth of a table (T, C) since the episode's first bar to `out`, (n, C); 0 where undefined."""
        self.market.backend.take_growth(table, self.bar, self.start, out)

    def take_weights(self, out: BackendArray, *, cash: bool = False) -> None:
        """Writes `weights` to `out`, (n, A); with cash its weight before them, (n, 1 + A)."""
        held = (self.positions, self.market.close, self.bar, self.value, out)
        self.market.backend.take_weights(*held, self.cash if cash else None)

    def take_window(self, table: BackendArray, length: int, out: BackendArray) -> None:
        """Writes the `length` rows up to `bar[i]` of a table (T, C), oldest first, to `out[i]`, (n, length * C)."""
        self.market.backend.take_window(table, self.bar, length, out)

    def take_deviation(self, table: BackendArray, length: int, weights: BackendArray, out: BackendArray) -> None:
        """Writes how weights (n, C) times the `length` rows up to `bar[i]` of a table (T, C) deviate, to `out` (n,)."""
        self.market.backend.take_deviation(table, self.bar, length, weights, out)

    def keep(self, chosen: BackendArray, out: BackendArray) -> None:
        """Writes 0 to `out[i]` where row `bar[i]` of a table of booleans is false."""
        self.market.backend.keep(chosen, self.bar, out)

    def softmax(self, chosen: BackendArray | None, factor: float, out: BackendArray) -> None:
        """Replaces `out[i]` by the softmax of `factor` times it over what row `bar[i]` chooses; None chooses all."""
        self.market.backend.softmax(chosen, self.bar, factor, out)

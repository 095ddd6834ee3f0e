"""What the parts of a trading environment see: n accounts, their market and its panel, at one moment.

Parts (rewards, observations, actions, terminations, portfolio stages) are written against these protocols, so that the
same few lines run on NumPy arrays and on torch tensors. The classes behind them are in `market`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias

from alphaswarm_rl.core.types import AnyArray, Array

if TYPE_CHECKING:
    import numpy as np

Function: TypeAlias = "Callable[..., AnyArray]"


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
    mean: Function
    cumsum: Function
    any: Function
    all: Function
    stack: Function
    concatenate: Function


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
    def last_bar(self) -> Array: ...
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
    def warmup(self) -> int: ...
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
    def name(self) -> str: ...
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
    def assets(self) -> int: ...
    @property
    def close(self) -> AnyArray: ...
    @property
    def fill_price(self) -> AnyArray: ...
    @property
    def tradable(self) -> AnyArray: ...
    @property
    def features(self) -> AnyArray: ...
    @property
    def market_features(self) -> AnyArray: ...


class View(Protocol):
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

    xp: ArrayFunctions
    n: int
    initial_cash: float
    bar: AnyArray
    start: AnyArray
    last: AnyArray
    cash: AnyArray
    positions: AnyArray
    value: AnyArray
    value_before: AnyArray
    peak: AnyArray
    cost: AnyArray
    carry: AnyArray
    turnover: AnyArray
    traded: AnyArray
    average_cost: AnyArray
    called: AnyArray
    terminated: AnyArray
    truncated: AnyArray
    improper_stop: AnyArray
    reward: AnyArray
    action: AnyArray

    @property
    def market(self) -> MarketTables:
        """The market's tables by bar."""
        ...

    @property
    def close(self) -> AnyArray:
        """Closing prices, (n, A); 0 where an asset has none yet."""
        ...

    @property
    def fill_price(self) -> AnyArray:
        """Where the step's orders were filled, (n, A)."""
        ...

    @property
    def features(self) -> AnyArray:
        """The features of the bar, (n, A * K), asset after asset."""
        ...

    @property
    def steps(self) -> AnyArray:
        """Decisions of the episode so far, (n,) int64."""
        ...

    @property
    def weights(self) -> AnyArray:
        """Value of each position over the equity, (n, A); 0 where there is no equity."""
        ...

    @property
    def drawdown(self) -> AnyArray:
        """Relative distance below the peak, (n,)."""
        ...

    @property
    def portfolio_return(self) -> AnyArray:
        """Relative change of the equity in the step, (n,); 0 where there was none before."""
        ...

    def take(self, table: AnyArray, out: AnyArray) -> None:
        """Writes row `bar[i]` of a table (T, C) to `out[i]`, (n, C)."""
        ...

    def take_columns(self, table: AnyArray, columns: AnyArray, out: AnyArray) -> None:
        """Writes some columns of row `bar[i]` of a table (T, C) to `out[i]`, (n, len(columns))."""
        ...

    def take_growth(self, table: AnyArray, out: AnyArray) -> None:
        """Writes the growth of a table (T, C) since the episode's first bar to `out`, (n, C); 0 where undefined."""
        ...

    def take_weights(self, out: AnyArray, *, cash: bool = False) -> None:
        """Writes `weights` to `out`, (n, A); with cash its weight before them, (n, 1 + A)."""
        ...

    def take_window(self, table: AnyArray, length: int, out: AnyArray) -> None:
        """Writes the `length` rows up to `bar[i]` of a table (T, C), oldest first, to `out[i]`, (n, length * C)."""
        ...

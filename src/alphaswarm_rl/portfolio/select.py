"""Stages that select: which assets may be held at a bar, from bars alone."""

from __future__ import annotations

import abc

import numpy as np
from pydantic import Field, model_validator

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.errors import DataError, nearest
from alphaswarm_rl.core.kinds import PortfolioStage
from alphaswarm_rl.core.types import Array, BackendArray, NamedArrays
from alphaswarm_rl.core.view import Panel, View
from alphaswarm_rl.market.covariance import bar_returns
from alphaswarm_rl.portfolio.rebalance import Rebalance, first_bars


class SelectStage(PortfolioStage):
    """The base of stages that select: what is not selected gets no weight, and what it had is cash."""

    rl_category = "selection"
    role = "select"

    @abc.abstractmethod
    def selects(self, panel: Panel, bars: BackendArray) -> BackendArray:
        """Which assets it selects at these bars, (len(bars), A) bool, from rows up to each."""

    def chooses(self, panel: Panel) -> Array:
        """The bars of its `rebalance`; all where it has none."""
        return first_bars(panel, getattr(self.config, "rebalance", "bar"))

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Takes away the weights of what is not selected."""
        view.keep(state["selected"], out)


class StaticUniverseSelector(SelectStage):
    """The assets that are named, always."""

    rl_alias = "static_universe"

    class Config(ComponentConfig):
        """Parameters of a named selection."""

        symbols: list[str] = Field(min_length=1, description="The assets that may be held.")

        @model_validator(mode="after")
        def _each_once(self) -> StaticUniverseSelector.Config:
            for symbol in self.symbols:
                if self.symbols.count(symbol) > 1:
                    raise ValueError(f"{symbol!r} is there twice: name each once")
            return self

    def selects(self, panel: Panel, bars: Array) -> Array:
        """Those that are named; one that the bars do not have is an error."""
        for symbol in self.config.symbols:
            if symbol not in panel.assets:
                raise DataError(
                    f"symbol {symbol!r} of the portfolio stage {self.rl_alias!r}",
                    "the bars have no such asset",
                    nearest(symbol, panel.assets),
                )
        chosen = np.isin(np.array(panel.assets), self.config.symbols)
        return np.broadcast_to(chosen, (len(bars), panel.num_assets))


class LiquiditySelector(SelectStage):
    """The assets that trade enough: close times volume per bar, on average over the last `lookback` bars.

    A bar without a trade counts as none, and so does one before the first: an asset that came late must have traded
    the more. Money does not change with a split.
    """

    rl_alias = "liquidity"
    needs = ("volume",)

    class Config(ComponentConfig):
        """Parameters of the selection by traded value."""

        min_traded_value: float = Field(1e6, gt=0, description="Least money traded per bar, on average.")
        lookback: int = Field(20, ge=1, description="Bars of the average, the newest among them.")
        rebalance: Rebalance = Field("bar", description="With the first bar of what it selects anew.")

    def warmup_bars(self) -> int:
        """So many that the first decision sees a whole window."""
        return int(self.config.lookback) - 1

    def selects(self, panel: Panel, bars: Array) -> Array:
        """Those that traded enough."""
        assert panel.volume is not None  # `needs`
        config, total = self.config, np.zeros((len(bars), panel.num_assets))
        first = max(int(bars.min()) - config.lookback + 1, 0)
        price = np.nan_to_num(panel.close[first:])
        money = np.where(panel.tradable[first:], price * panel.volume[first:], 0.0)
        for back in range(config.lookback):
            total += np.where((bars >= back)[:, None], money[np.maximum(bars - back - first, 0)], 0.0)
        return np.asarray(total / config.lookback >= config.min_traded_value)


class MomentumSelector(SelectStage):
    """The `k` assets with the highest return over the last `lookback` bars; of equals the first in the bars' order.

    Returns are what a holder gets, dividends and splits included. Only assets take part that can be traded at the bar
    and have a price on all bars of the lookback; where fewer do, all of them are selected.
    """

    rl_alias = "momentum"
    rl_short_names = ("TopKSelector",)

    class Config(ComponentConfig):
        """Parameters of the selection by return."""

        k: int = Field(10, ge=1, description="How many assets are selected.")
        lookback: int = Field(126, ge=1, description="Returns that are looked at.")
        skip: int = Field(
            0, ge=0, description="Newest returns that are left out; 21 days for momentum without reversal."
        )
        rebalance: Rebalance = Field("bar", description="With the first bar of what it selects anew.")

    def warmup_bars(self) -> int:
        """So many that the first decision sees the whole lookback."""
        return int(self.config.lookback + self.config.skip)

    def selects(self, panel: Panel, bars: Array) -> Array:
        """Those that gained most."""
        config = self.config
        growth = np.ones((len(bars), panel.num_assets))
        first = max(int(bars.min()) - config.skip - config.lookback, 0)
        factors = 1.0 + bar_returns(panel, first)
        # Bar by bar and not by a running product: what a window gained does not depend on where the bars begin.
        for back in range(config.skip, config.skip + config.lookback):
            growth *= np.where((bars > back)[:, None], factors[np.maximum(bars - back - first, 0)], np.nan)
        takes_part = np.isfinite(growth) & panel.tradable[bars]
        return top_k(np.where(takes_part, growth, -np.inf), config.k) & takes_part


def top_k(values: Array, k: int) -> Array:
    """Where the k highest values of each row are, (n, A) bool; of equals the first."""
    order = np.argsort(-values, axis=1, kind="stable")[:, :k]
    chosen = np.zeros(values.shape, np.bool_)
    np.put_along_axis(chosen, order, True, axis=1)
    return chosen

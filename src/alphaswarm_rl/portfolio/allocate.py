"""Stages that allocate: weights over what is selected, of the action's weights or of trailing returns."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.kinds import PortfolioStage
from alphaswarm_rl.core.types import Array, BackendArray, NamedArrays
from alphaswarm_rl.core.view import Panel, View
from alphaswarm_rl.portfolio.rebalance import Rebalance, first_bars
from alphaswarm_rl.statistics.allocations import Method, TrailingWeights, equal_weights


class SoftmaxAllocator(PortfolioStage):
    """The softmax of the weights that came before it, over what is selected: all of the equity, long only.

    A weight of 0 takes part like any other. The smaller the temperature, the more the largest weight gets.
    """

    rl_alias = "softmax"
    rl_category = "allocation"
    role = "allocate"

    class Config(ComponentConfig):
        """Parameters of the softmax."""

        temperature: float = Field(1.0, gt=0, description="What weights are divided by before the softmax.")

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes the weights; all 0 where nothing is selected."""
        view.softmax(state.get("selected"), 1.0 / self.config.temperature, out)


class BarAllocator(PortfolioStage):
    """The base of allocators whose weights depend on the bars alone: what the agent wanted plays no part."""

    rl_category = "allocation"
    role = "allocate"

    class Config(ComponentConfig):
        """Parameters of every allocator by bars."""

        rebalance: Rebalance = Field("bar", description="With the first bar of what it allocates anew.")

    def chooses(self, panel: Panel) -> Array:
        """The bars of its `rebalance`."""
        return first_bars(panel, self.config.rebalance)

    def weights(self, panel: Panel, bar: int, selected: Array) -> Array:
        """The weights (A,) at one bar over what is selected (A,). Here: equal ones."""
        return equal_weights(panel, bar, selected)

    def allocations(self, panel: Panel, bars: Array, selected: Array) -> Array:
        """The weights at these bars."""
        rows = [self.weights(panel, int(bar), chosen) for bar, chosen in zip(bars, selected, strict=True)]
        return np.array(rows).reshape(len(rows), panel.num_assets)

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes the weights of the bar."""
        view.take(state["allocation"], out)


class EqualWeightAllocator(BarAllocator):
    """The same weight for every selected asset that can be traded."""

    rl_alias = "equal_weight"

    class Config(BarAllocator.Config):
        """Parameters of equal weights."""


class TrailingAllocator(BarAllocator):
    """The base of allocators that look back at returns.

    Long only and fully invested, over the selected assets that can be traded, have a price on every bar of the lookback
    and moved in it. Weights are equal where the lookback is not there yet, or fewer than two assets are left.
    """

    method: ClassVar[Method]

    class Config(BarAllocator.Config):
        """Parameters of every allocator that looks back."""

        rebalance: Rebalance = Field("month", description="With the first bar of what it allocates anew.")
        lookback: int = Field(252, ge=2, description="Returns up to the bar that are looked at.")

    def warmup_bars(self) -> int:
        """So many that there is a whole lookback at the first decision."""
        return int(self.config.lookback)

    def weights(self, panel: Panel, bar: int, selected: Array) -> Array:
        """The weights (A,) at one bar over what is selected (A,)."""
        aversion = getattr(self.config, "risk_aversion", 1.0)
        what = f"portfolio stage {self.rl_alias!r}"
        return TrailingWeights(what, self.config.lookback, self.method, aversion)(panel, bar, selected)


class InverseVolatilityAllocator(TrailingAllocator):
    """Weights in inverse proportion to each asset's volatility over the last `lookback` bars."""

    rl_alias = "inverse_volatility"
    method = "inverse_volatility"

    class Config(TrailingAllocator.Config):
        """Parameters of inverse volatility."""


class MinimumVarianceAllocator(TrailingAllocator):
    """The weights that would have had the least variance over the last `lookback` bars.

    (Markowitz 1952.)
    """

    rl_alias = "minimum_variance"
    method = "minimum_variance"

    class Config(TrailingAllocator.Config):
        """Parameters of minimum variance."""


class MeanVarianceAllocator(TrailingAllocator):
    """The weights with the highest mean minus `risk_aversion` times variance over the last `lookback` bars.

    Mean and variance are per bar, as those of the policy `mean_variance`. (Markowitz 1952.)
    """

    rl_alias = "mean_variance"
    method = "utility"

    class Config(TrailingAllocator.Config):
        """Parameters of mean and variance."""

        risk_aversion: float = Field(1.0, ge=0, description="What a unit of variance costs, in units of mean return.")


class HierarchicalRiskParityAllocator(TrailingAllocator):
    """Hierarchical risk parity over the last `lookback` bars.

    Assets are clustered by correlation, and risk is split between clusters from the top down; no covariance matrix is
    inverted. (Lopez de Prado 2016.)
    """

    rl_alias = "hierarchical_risk_parity"
    rl_short_names = ("hrp",)
    method = "hierarchical_risk_parity"

    class Config(TrailingAllocator.Config):
        """Parameters of hierarchical risk parity."""

"""Stages that time: one number from 0 to 1 that all weights are multiplied by."""

from __future__ import annotations

from math import sqrt

import numpy as np
from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.core.kinds import PortfolioStage
from alphaswarm_rl.core.types import BackendArray, NamedArrays
from alphaswarm_rl.core.view import Panel, View
from alphaswarm_rl.market.covariance import bar_returns


class TimeStage(PortfolioStage):
    """The base of stages that time."""

    rl_category = "timing"
    role = "time"


class ConstantTimingAdjuster(TimeStage):
    """The same part of the weights, always."""

    rl_alias = "constant"

    class Config(ComponentConfig):
        """Parameters of constant timing."""

        scale: float = Field(1.0, ge=0, le=1, description="What weights are multiplied by.")

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Scales."""
        out *= self.config.scale


class TurbulenceTimingAdjuster(TimeStage):
    """Less, or nothing, while the market feature `turbulence` is at a threshold or above it, and some bars longer.

    At turbulence x the scale is `scale` where `smoothing` is 0, else exp(-smoothing * (x - threshold)), and `scale` at
    least. For `cooldown_bars` bars after the last turbulent one its scale stays.
    """

    rl_alias = "turbulence"

    class Config(ComponentConfig):
        """Parameters of timing by turbulence."""

        threshold: float = Field(140.0, description="Turbulence from which on weights are scaled.")
        scale: float = Field(0.0, ge=0, le=1, description="Least scale; without smoothing the scale.")
        smoothing: float = Field(0.0, ge=0, description="How fast the scale falls above the threshold; 0: at once.")
        cooldown_bars: int = Field(0, ge=0, description="Bars for which the scale stays when turbulence is over.")

    def warmup_bars(self) -> int:
        """Those of the cooldown: the first decision knows of turbulence before it."""
        return int(self.config.cooldown_bars)

    def prepare(self, panel: Panel) -> NamedArrays:
        """The scale by bar."""
        if "turbulence" not in panel.market_feature_names:
            raise DataError(
                "market feature 'turbulence'",
                f"the portfolio stage {self.rl_alias!r} needs it and the panel has none",
                "Add market_features: [turbulence] to the data pipeline, or leave the stage out.",
            )
        config = self.config
        turbulence = panel.market_features[:, panel.market_feature_names.index("turbulence")].astype(np.float64)
        above = turbulence >= config.threshold
        excess = np.where(above, turbulence - config.threshold, 0.0)
        falling = np.exp(-config.smoothing * excess) if config.smoothing else np.zeros(len(excess))
        bars = np.arange(panel.num_bars)
        last = np.maximum.accumulate(np.where(above, bars, -1))
        within = (last >= 0) & (bars - last <= config.cooldown_bars)
        return {"scale": np.where(within, np.maximum(falling, config.scale)[last], 1.0)}

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Scales."""
        out *= state["scale"][view.bar][:, None]


class VolatilityTargetingTimingAdjuster(TimeStage):
    """As much of the weights as keeps their volatility at a target.

    The volatility is what the target weights would have had over the last `lookback` bars, by the year; the scale is
    the target over it, and never above `max_scale`. An asset counts as still where it has no price.
    """

    rl_alias = "volatility_target"

    class Config(ComponentConfig):
        """Parameters of a volatility target."""

        target: float = Field(0.1, gt=0, description="Yearly volatility that is aimed at.")
        lookback: int = Field(20, ge=2, description="Returns that it is estimated from.")
        max_scale: float = Field(1.0, gt=0, le=1, description="Largest scale.")

    def warmup_bars(self) -> int:
        """So many that there is a whole lookback at the first decision."""
        return int(self.config.lookback)

    def prepare(self, panel: Panel) -> NamedArrays:
        """Returns by bar and asset."""
        return {"returns": np.nan_to_num(bar_returns(panel))}

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Scales."""
        xp, config = view.xp, self.config
        volatility = xp.zeros(view.n, dtype=xp.float64)
        view.take_deviation(state["returns"], config.lookback, out, volatility)
        volatility *= sqrt(view.market.panel.periods_per_year)
        # The larger of the two: where there is no volatility nothing has to be scaled.
        out *= (config.target / xp.clip(volatility, config.target / config.max_scale, xp.inf))[:, None]

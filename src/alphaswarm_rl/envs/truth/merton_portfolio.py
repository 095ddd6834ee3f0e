"""Merton's portfolio."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field, PositiveFloat, PositiveInt

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.envs.truth.task import TruthComponent

if TYPE_CHECKING:
    from alphaswarm_rl.envs.truth.merton_portfolio_task import MertonPortfolioTask


class MertonPortfolio(TruthComponent):
    """Merton's portfolio: the growth of wealth in two stocks and cash, whose best weights never change.

    Prices are geometric Brownian motions, and within a step of one year the portfolio is rebalanced continuously: log
    wealth grows by `rate + w'm - w'Cw / 2` and a normal shock of variance `w'Cw`, with m the excess drifts and C the
    covariance. Under log utility the optimum is w = C^-1 m, whatever the wealth and the time (Merton, 1969).
    """

    rl_alias = "merton_portfolio"
    rl_tags = ("continuous", "native", "exact-resume", "torch", "truth")

    class Config(ComponentConfig):
        """Parameters of the task."""

        rate: float = Field(0.02, ge=-1, le=1, description="What cash earns per step.")
        excess: tuple[float, float] = Field((0.08, 0.05), description="Drifts of the stocks beyond the rate.")
        volatility: tuple[PositiveFloat, PositiveFloat] = Field((0.25, 0.2), description="Volatilities of the stocks.")
        correlation: float = Field(0.3, gt=-1, lt=1, description="Correlation of the stocks.")
        bound: PositiveFloat = Field(3.0, description="The weight that an action of 1 stands for.")
        horizon: PositiveInt = Field(128, description="Steps of an episode, which is truncated then.")

    def task(self) -> MertonPortfolioTask:
        """The dynamics and the optimum."""
        from alphaswarm_rl.envs.truth.merton_portfolio_task import MertonPortfolioTask

        return MertonPortfolioTask(self.rl_alias, self.config, self.config.horizon)

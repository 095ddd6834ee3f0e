"""A stock in two regimes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field, PositiveFloat, PositiveInt

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.envs.truth.task import TruthComponent

if TYPE_CHECKING:
    from alphaswarm_rl.envs.truth.regime_allocation_task import RegimeAllocationTask

_Probability = Annotated[float, Field(gt=0, lt=1)]


class RegimeAllocation(TruthComponent):
    """A stock in two regimes that are seen and switch by chance: none, half or all of the wealth, at a cost.

    The reward is the growth of log wealth as in `merton_portfolio`, less the cost of changing the weight. The optimum
    is known by dynamic programming over regime and weight.
    """

    rl_alias = "regime_allocation"
    rl_tags = ("discrete", "native", "exact-resume", "torch", "truth")

    class Config(ComponentConfig):
        """Parameters of the task; of two numbers the first is the good regime's."""

        drift: tuple[float, float] = Field((0.15, -0.15), description="Drifts of the stock beyond cash.")
        volatility: PositiveFloat = Field(0.3, description="Volatility of the stock.")
        stay: tuple[_Probability, _Probability] = Field(
            (0.95, 0.92), description="Probabilities that the next step is in the same regime."
        )
        cost: float = Field(0.05, ge=0, lt=1, description="What a change of the weight by 1 costs.")
        horizon: PositiveInt = Field(128, description="Steps of an episode, which is truncated then.")

    def task(self) -> RegimeAllocationTask:
        """The dynamics and the optimum."""
        from alphaswarm_rl.envs.truth.regime_allocation_task import RegimeAllocationTask

        return RegimeAllocationTask(self.rl_alias, self.config, self.config.horizon)

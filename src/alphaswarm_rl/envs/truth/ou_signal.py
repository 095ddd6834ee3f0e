"""A signal that reverts to its mean, traded at quadratic costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.envs.truth.task import TruthComponent

if TYPE_CHECKING:
    from alphaswarm_rl.envs.truth.ou_signal_task import OuSignalTask


class OuSignal(TruthComponent):
    """An Ornstein-Uhlenbeck signal that is traded at quadratic costs, whose optimum is linear.

    The signal x of variance 1 is the expected return of a unit until the next step. A position p earns
    `p (x + noise) - risk_aversion p^2 / 2 - cost (p - before)^2 / 2`, times `scale`. The best position is a part of the
    one before plus a part of the signal (Garleanu and Pedersen, 2013).
    """

    rl_alias = "ou_signal"
    rl_tags = ("continuous", "native", "exact-resume", "torch", "truth")

    class Config(ComponentConfig):
        """Parameters of the task."""

        persistence: float = Field(0.9, ge=0, lt=1, description="What is left of the signal after a step.")
        noise: NonNegativeFloat = Field(0.5, description="Standard deviation of returns that the signal does not tell.")
        risk_aversion: PositiveFloat = Field(1.0, description="Twice what the square of a position costs per step.")
        cost: NonNegativeFloat = Field(2.0, description="Twice what the square of a trade costs.")
        bound: PositiveFloat = Field(5.0, description="The position that an action of 1 stands for.")
        scale: PositiveFloat = Field(0.1, description="What all rewards are multiplied by.")
        horizon: PositiveInt = Field(128, description="Steps of an episode, which is truncated then.")

    def task(self) -> OuSignalTask:
        """The dynamics and the optimum."""
        from alphaswarm_rl.envs.truth.ou_signal_task import OuSignalTask

        return OuSignalTask(self.rl_alias, self.config, self.config.horizon)

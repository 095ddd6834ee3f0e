"""A market of noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field, PositiveInt

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.envs.truth.task import TruthComponent

if TYPE_CHECKING:
    from alphaswarm_rl.envs.truth.noise_after_costs_task import NoiseAfterCostsTask


class NoiseAfterCosts(TruthComponent):
    """A market of pure noise with costs: what is seen says nothing, and the optimum is to stay out.

    Returns are independent and uniform on [-1, 1]; the last four and the position are seen.
    """

    rl_alias = "noise_after_costs"
    rl_tags = ("discrete", "native", "exact-resume", "torch", "truth")

    class Config(ComponentConfig):
        """Parameters of the task."""

        cost: float = Field(0.2, gt=0, lt=1, description="What one unit traded costs.")
        carry: float = Field(0.1, gt=0, lt=1, description="What one unit held costs per step.")
        horizon: PositiveInt = Field(128, description="Steps of an episode, which is truncated then.")

    def task(self) -> NoiseAfterCostsTask:
        """The dynamics and the optimum."""
        from alphaswarm_rl.envs.truth.noise_after_costs_task import NoiseAfterCostsTask

        return NoiseAfterCostsTask(self.rl_alias, self.config, self.config.horizon)

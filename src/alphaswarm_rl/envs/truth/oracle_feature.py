"""A market whose next return is seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field, PositiveInt

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.envs.truth.task import TruthComponent

if TYPE_CHECKING:
    from alphaswarm_rl.envs.truth.oracle_feature_task import OracleFeatureTask


class OracleFeature(TruthComponent):
    """A market whose next return is seen: long, flat or short, at a cost of trading and of holding.

    Returns are independent and uniform on [-1, 1]. The optimum is known by dynamic programming.
    """

    rl_alias = "oracle_feature"
    rl_tags = ("discrete", "native", "exact-resume", "torch", "truth")

    class Config(ComponentConfig):
        """Parameters of the task."""

        cost: float = Field(0.2, ge=0, lt=1, description="What one unit traded costs.")
        carry: float = Field(0.1, ge=0, lt=1, description="What one unit held costs per step.")
        horizon: PositiveInt = Field(128, description="Steps of an episode, which is truncated then.")

    def task(self) -> OracleFeatureTask:
        """The dynamics and the optimum."""
        from alphaswarm_rl.envs.truth.oracle_feature_task import OracleFeatureTask

        return OracleFeatureTask(self.rl_alias, self.config, self.config.horizon)

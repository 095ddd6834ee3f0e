"""What a bound cuts off a reward."""

from __future__ import annotations

from pydantic import Field, model_validator

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.kinds import RewardTerm
from alphaswarm_rl.core.types import BackendArray, NamedArrays
from alphaswarm_rl.core.view import View


class ClipResidual(RewardTerm):
    """What has to be added to the other terms' sum to bring it between `low` and `high`; a composite's `clip`."""

    rl_alias = "clip_residual"
    rl_category = "shaping"
    settles = True

    class Config(ComponentConfig):
        """Parameters of the bounds."""

        low: float = Field(-1.0, description="Least reward of a step.")
        high: float = Field(1.0, description="Largest reward of a step.")

        @model_validator(mode="after")
        def _low_is_below_high(self) -> ClipResidual.Config:
            if self.low >= self.high:
                raise ValueError("low must be below high")
            return self

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes what is missing to the nearer bound."""
        out[...] = view.xp.clip(view.reward, self.config.low, self.config.high) - view.reward

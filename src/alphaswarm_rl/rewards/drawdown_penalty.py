"""The cost of being below the peak."""

from __future__ import annotations

from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.kinds import RewardTerm
from alphaswarm_rl.core.types import BackendArray, NamedArrays
from alphaswarm_rl.core.view import View


class DrawdownPenalty(RewardTerm):
    """Minus `weight` times the relative distance below the episode's highest value so far, beyond `threshold`."""

    rl_alias = "drawdown_penalty"
    rl_category = "risk"

    class Config(ComponentConfig):
        """Parameters of the drawdown penalty."""

        weight: float = Field(1.0, ge=0, description="Reward lost per unit of drawdown.")
        threshold: float = Field(0.0, ge=0, lt=1, description="Drawdown that costs nothing.")

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes the penalty."""
        out[...] = -self.config.weight * view.xp.clip(view.drawdown - self.config.threshold, 0.0, 1.0)

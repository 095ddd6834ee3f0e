"""The cost of trading much."""

from __future__ import annotations

from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.kinds import RewardTerm
from alphaswarm_rl.core.types import BackendArray, NamedArrays
from alphaswarm_rl.core.view import View


class TurnoverPenalty(RewardTerm):
    """Minus `weight` times the value traded in the step over the equity before."""

    rl_alias = "turnover_penalty"
    rl_category = "cost"

    class Config(ComponentConfig):
        """Parameters of the turnover penalty."""

        weight: float = Field(0.001, ge=0, description="Reward lost when the whole account is traded once.")

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes the penalty."""
        out[...] = -self.config.weight * view.turnover

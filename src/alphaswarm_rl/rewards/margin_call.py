"""The cost of a margin call."""

from __future__ import annotations

from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.kinds import RewardTerm
from alphaswarm_rl.core.types import BackendArray, NamedArrays
from alphaswarm_rl.core.view import View


class MarginCallPenalty(RewardTerm):
    """Minus `penalty` on the step in which the account falls below its maintenance margin."""

    rl_alias = "margin_call"
    rl_category = "risk"

    class Config(ComponentConfig):
        """Parameters of the margin call penalty."""

        penalty: float = Field(100.0, ge=0, description="Reward lost by a margin call.")

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes the penalty."""
        out[...] = view.xp.where(view.called, -self.config.penalty, 0.0)

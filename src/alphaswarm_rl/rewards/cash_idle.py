"""The cost of doing nothing."""

from __future__ import annotations

from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.kinds import RewardTerm
from alphaswarm_rl.core.types import BackendArray, NamedArrays
from alphaswarm_rl.core.view import View


class CashIdle(RewardTerm):
    """Minus `penalty` on a step that ends without any position."""

    rl_alias = "cash_idle"
    rl_category = "behaviour"

    class Config(ComponentConfig):
        """Parameters of the idle cash penalty."""

        penalty: float = Field(0.0005, ge=0, description="Reward lost per step in cash alone.")

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes the penalty."""
        out[...] = view.xp.where(view.xp.all(view.positions == 0, axis=-1), -self.config.penalty, 0.0)

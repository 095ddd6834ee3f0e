"""Money earned."""

from __future__ import annotations

from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.kinds import RewardTerm
from alphaswarm_rl.core.types import BackendArray, NamedArrays
from alphaswarm_rl.core.view import View


class PnL(RewardTerm):
    """The change of the account's value in the step, after all costs, times `scale`."""

    rl_alias = "pnl"
    rl_category = "profit"

    class Config(ComponentConfig):
        """Parameters of the profit term."""

        scale: float = Field(1e-4, gt=0, description="Reward per unit of money.")

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes the scaled change of value."""
        out[...] = (view.value - view.value_before) * self.config.scale

"""The cost of a large inventory."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.kinds import RewardTerm
from alphaswarm_rl.core.types import BackendArray, NamedArrays
from alphaswarm_rl.core.view import View


class InventoryQuadratic(RewardTerm):
    """Minus `phi` times the sum of the squared positions at the end of the step, in units or in parts of the equity."""

    rl_alias = "inventory_quadratic"
    rl_category = "risk"

    class Config(ComponentConfig):
        """Parameters of the inventory penalty."""

        phi: float = Field(1e-4, ge=0, description="Reward lost per squared unit, or per squared part of the equity.")
        measure: Literal["units", "weights"] = Field(
            "units", description="What a position is counted in: its units, or its value over the equity."
        )

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes the penalty."""
        held = view.positions if self.config.measure == "units" else view.weights
        out[...] = -self.config.phi * view.xp.sum(held * held, axis=-1)

"""A market maker's profit less the cost of its inventory."""

from __future__ import annotations

from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.kinds import RewardTerm
from alphaswarm_rl.core.types import BackendArray, NamedArrays
from alphaswarm_rl.core.view import View


class RunningInventory(RewardTerm):
    """Money earned, minus `phi` times the squared inventory per unit of time, minus `alpha` times it at the end.

    The inventory is the units held after the step's fills, squared and summed over the assets: `phi` and `alpha` are
    money per squared unit. The episode's last step, however it ends, pays both; what was sold by then costs nothing. It
    is the criterion of Cartea and Jaimungal in discrete time. Beside another profit term set `include_pnl: false`, or
    the profit counts twice.
    """

    rl_alias = "running_inventory"
    rl_category = "profit"

    class Config(ComponentConfig):
        """Parameters of the inventory criterion."""

        phi: float = Field(1e-4, ge=0, description="Money lost per squared unit and unit of time.")
        alpha: float = Field(1e-3, ge=0, description="Money lost per squared unit that is left at the end.")
        dt: float = Field(1.0, gt=0, description="Length of a step, in the time unit of phi.")
        include_pnl: bool = Field(True, description="Whether the money earned is part of it.")
        scale: float = Field(1.0, gt=0, description="Reward per unit of money.")

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes profit less penalties."""
        xp, config = view.xp, self.config
        squared = xp.sum(view.positions * view.positions, axis=-1)
        rate = xp.where(view.terminated | view.truncated, config.phi * config.dt + config.alpha, config.phi * config.dt)
        earned = view.value - view.value_before if config.include_pnl else 0.0
        out[...] = (earned - rate * squared) * config.scale

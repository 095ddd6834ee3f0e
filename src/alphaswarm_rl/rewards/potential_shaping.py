"""Progress towards a goal, without changing the goal."""

from __future__ import annotations

from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.kinds import RewardTerm
from alphaswarm_rl.core.types import BackendArray, NamedArrays
from alphaswarm_rl.core.view import View


class PotentialShaping(RewardTerm):
    """Gamma times the potential after the step minus the potential before it (Ng, Harada, Russell 1999).

    The potential is the account's value over the initial cash minus 1, and 0 in a terminated state. Discounted by
    `gamma`, an episode's sum is gamma^T times the last potential minus the first, which is 0: for an agent that
    discounts by the same gamma the best policy stays the best.
    """

    rl_alias = "potential_shaping"
    rl_category = "shaping"

    class Config(ComponentConfig):
        """Parameters of the shaping."""

        gamma: float = Field(0.99, ge=0, le=1, description="Discount factor; the agent's own.")

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes the shaping."""
        before = view.value_before / view.initial_cash - 1.0
        after = view.xp.where(view.terminated, 0.0, view.value / view.initial_cash - 1.0)
        out[...] = self.config.gamma * after - before

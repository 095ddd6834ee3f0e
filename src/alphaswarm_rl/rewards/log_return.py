"""The account's log return."""

from __future__ import annotations

from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.kinds import RewardTerm
from alphaswarm_rl.core.types import BackendArray, NamedArrays
from alphaswarm_rl.core.view import View


class LogReturn(RewardTerm):
    """The logarithm of the account's value over its value before the step; 0 where there was none before.

    Summed over an episode it is the logarithm of the whole growth.
    """

    rl_alias = "log_return"
    rl_category = "profit"

    class Config(ComponentConfig):
        """Parameters of the log return."""

        floor: float = Field(
            1e-6, gt=0, lt=1, description="Least growth that is told apart: an account that is lost counts as this."
        )

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes the log return."""
        xp, before = view.xp, view.value_before
        alive = before > 0
        growth = xp.where(alive, view.value, 1.0) / xp.where(alive, before, 1.0)
        out[...] = xp.log(xp.clip(growth, self.config.floor, xp.inf))

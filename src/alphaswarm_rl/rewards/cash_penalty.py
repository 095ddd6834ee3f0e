"""Value per step, less the cash that is missing."""

from __future__ import annotations

from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.kinds import RewardTerm
from alphaswarm_rl.core.types import BackendArray, NamedArrays
from alphaswarm_rl.core.view import View


class CashPenalty(RewardTerm):
    """The return since the start per step made, as if cash below `cash_fraction` of the value were lost (FinRL).

    r = ((V - max(cash_fraction V - cash, 0)) / initial cash - 1) / steps, with V the account's value.
    """

    rl_alias = "cash_penalty"
    rl_category = "profit"

    class Config(ComponentConfig):
        """Parameters of the cash penalty."""

        cash_fraction: float = Field(0.1, ge=0, lt=1, description="Part of the value that should be in cash.")

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes the reward."""
        xp = view.xp
        missing = xp.clip(self.config.cash_fraction * view.value - view.cash, 0.0, xp.inf)
        out[...] = ((view.value - missing) / view.initial_cash - 1.0) / xp.where(view.steps > 0, view.steps, 1)

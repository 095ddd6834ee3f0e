"""The account's return."""

from __future__ import annotations

from alphaswarm_rl.core.kinds import RewardTerm
from alphaswarm_rl.core.types import BackendArray, NamedArrays
from alphaswarm_rl.core.view import View
from alphaswarm_rl.rewards.step_return import step_return


class PortfolioReturn(RewardTerm):
    """The relative change of the account's value in the step; 0 where there was none before."""

    rl_alias = "portfolio_return"
    rl_category = "profit"

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes the return."""
        out[...] = step_return(view)

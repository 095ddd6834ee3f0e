"""The account's return."""

from __future__ import annotations

from typing import Any

from alphaswarm_rl.core.kinds import RewardTerm
from alphaswarm_rl.rewards.step_return import step_return


class PortfolioReturn(RewardTerm):
    """The relative change of the account's value in the step; 0 where there was none before."""

    rl_alias = "portfolio_return"
    rl_category = "profit"

    def step(self, view: Any, state: dict[str, Any], out: Any) -> None:
        """Writes the return."""
        out[...] = step_return(view)

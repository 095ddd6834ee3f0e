"""Return over the risk of loss, for the whole episode so far."""

from __future__ import annotations

from math import sqrt

from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.kinds import RewardTerm
from alphaswarm_rl.core.types import BackendArray, NamedArrays
from alphaswarm_rl.core.view import ArrayFunctions, View
from alphaswarm_rl.rewards.step_return import step_return

#: A downside deviation below this is none.
_EPSILON = 1e-12


class Sortino(RewardTerm):
    """The annualised Sortino ratio of the account's returns in the episode so far.

    Mean over downside deviation, the root of the mean squared loss, times the square root of the bars in a year. 0
    before `min_steps` returns, and as long as nothing was lost.
    """

    rl_alias = "sortino"
    rl_category = "risk-adjusted"

    class Config(ComponentConfig):
        """Parameters of the Sortino ratio."""

        min_steps: int = Field(20, ge=2, description="Returns below which there is no ratio.")

    def init(self, n: int, xp: ArrayFunctions) -> NamedArrays:
        """Number and sum of the returns, and sum of the squared losses."""
        return {name: xp.zeros(n, dtype=xp.float64) for name in ("count", "gained", "squared_loss")}

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes the ratio."""
        xp, gained = view.xp, step_return(view)
        count = state["count"] + 1.0
        total = state["gained"] + gained
        loss = xp.clip(gained, -xp.inf, 0.0)
        squared = state["squared_loss"] + loss * loss
        state["count"][...], state["gained"][...], state["squared_loss"][...] = count, total, squared
        deviation = xp.sqrt(squared / count)
        defined = (count >= self.config.min_steps) & (deviation > _EPSILON)
        ratio = xp.where(defined, total / count, 0.0) / xp.where(defined, deviation, 1.0)
        out[...] = ratio * sqrt(view.market.panel.periods_per_year)

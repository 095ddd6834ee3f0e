"""Return over risk, for the whole episode so far."""

from __future__ import annotations

from math import sqrt

from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.kinds import RewardTerm
from alphaswarm_rl.core.types import BackendArray, NamedArrays
from alphaswarm_rl.core.view import ArrayFunctions, View
from alphaswarm_rl.rewards.step_return import step_return

#: A standard deviation below this is none.
_EPSILON = 1e-12


class Sharpe(RewardTerm):
    """The annualised Sharpe ratio of the account's returns in the episode so far.

    Mean over standard deviation (ddof 1), times the square root of the bars in a year. 0 before `min_steps` returns,
    and where the returns do not vary.
    """

    rl_alias = "sharpe"
    rl_category = "risk-adjusted"

    class Config(ComponentConfig):
        """Parameters of the Sharpe ratio."""

        min_steps: int = Field(20, ge=2, description="Returns below which there is no ratio.")

    def init(self, n: int, xp: ArrayFunctions) -> NamedArrays:
        """Number, mean and summed squared distance from the mean of the returns."""
        return {name: xp.zeros(n, dtype=xp.float64) for name in ("count", "mean", "spread")}

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes the ratio."""
        xp, gained = view.xp, step_return(view)
        count = state["count"] + 1.0
        apart = gained - state["mean"]
        mean = state["mean"] + apart / count
        spread = state["spread"] + apart * (gained - mean)
        state["count"][...], state["mean"][...], state["spread"][...] = count, mean, spread
        deviation = xp.sqrt(spread / xp.clip(count - 1.0, 1.0, xp.inf))
        defined = (count >= self.config.min_steps) & (deviation > _EPSILON)
        ratio = xp.where(defined, mean, 0.0) / xp.where(defined, deviation, 1.0)
        out[...] = ratio * sqrt(view.market.panel.periods_per_year)

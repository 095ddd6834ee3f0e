"""What a step adds to the Sharpe ratio."""

from __future__ import annotations

from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.kinds import RewardTerm
from alphaswarm_rl.core.types import BackendArray, NamedArrays
from alphaswarm_rl.core.view import ArrayFunctions, View
from alphaswarm_rl.rewards.step_return import step_return

#: A variance below this is none.
_EPSILON = 1e-12


class DifferentialSharpe(RewardTerm):
    """The derivative of a moving Sharpe ratio by its rate of adaptation (Moody and Saffell 2001).

    A and B are moving averages of the return R and of its square. With their values before the step,

        D = (B (R - A) - A (R^2 - B) / 2) / (B - A^2)^(3/2),

    and then A and B move by `eta` towards R and R^2. 0 where B - A^2 is 0.

    Averages that have seen few returns give huge numbers. In the first `warmup_steps` of an episode the reward is 0
    while A and B are plain means, and afterwards it is cut to `limit`.
    """

    rl_alias = "differential_sharpe"
    rl_category = "risk-adjusted"

    class Config(ComponentConfig):
        """Parameters of the differential Sharpe ratio."""

        eta: float = Field(0.01, gt=0, le=1, description="Rate at which the averages adapt.")
        mean: float = Field(0.0, description="A as an episode begins: an expected return per bar.")
        second_moment: float = Field(0.0, ge=0, description="B as an episode begins: an expected squared return.")
        warmup_steps: int = Field(20, ge=0, description="First steps of an episode, without reward.")
        limit: float = Field(10.0, gt=0, description="Largest size of the reward.")

    def init(self, n: int, xp: ArrayFunctions) -> NamedArrays:
        """A and B, and the number of returns."""
        return {
            "mean": xp.full(n, self.config.mean, dtype=xp.float64),
            "second_moment": xp.full(n, self.config.second_moment, dtype=xp.float64),
            "count": xp.zeros(n, dtype=xp.float64),
        }

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes the derivative, then moves the averages."""
        xp, config, gained = view.xp, self.config, step_return(view)
        mean, second = state["mean"], state["second_moment"]
        to_mean, to_second = gained - mean, gained * gained - second
        variance = second - mean * mean
        defined = (variance > _EPSILON) & (state["count"] >= config.warmup_steps)
        safe = xp.where(defined, variance, 1.0)
        slope = (second * to_mean - 0.5 * mean * to_second) / (safe * xp.sqrt(safe))
        out[...] = xp.where(defined, xp.clip(slope, -config.limit, config.limit), 0.0)

        count = state["count"] + 1.0
        rate = xp.where(count <= config.warmup_steps, 1.0 / count, config.eta)
        mean[...] = mean + rate * to_mean
        second[...] = second + rate * to_second
        state["count"][...] = count

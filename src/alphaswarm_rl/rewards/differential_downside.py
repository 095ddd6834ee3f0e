"""What a step adds to the Sortino ratio."""

from __future__ import annotations

from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.kinds import RewardTerm
from alphaswarm_rl.core.types import BackendArray, NamedArrays
from alphaswarm_rl.core.view import ArrayFunctions, View
from alphaswarm_rl.rewards.step_return import step_return

#: A squared downside deviation below this is none.
_EPSILON = 1e-12


class DifferentialDownside(RewardTerm):
    """The derivative of a moving Sortino ratio by its rate of adaptation (Moody and Saffell 2001).

    R is the return above `target`. A and V are moving averages of R and of min(R, 0)^2, the squared loss. With their
    values before the step,

        D = (V (R - A / 2) - A min(R, 0)^2 / 2) / V^(3/2),

    and then A and V move by `eta`. 0 as long as V is 0, that is until the first loss.

    Averages that have seen few returns give huge numbers. In the first `warmup_steps` of an episode the reward is 0
    while A and V are plain means, and afterwards it is cut to `limit`.
    """

    rl_alias = "differential_downside"
    rl_category = "risk-adjusted"

    class Config(ComponentConfig):
        """Parameters of the differential downside ratio."""

        eta: float = Field(0.01, gt=0, le=1, description="Rate at which the averages adapt.")
        target: float = Field(0.0, description="Return per bar below which it is a loss.")
        mean: float = Field(0.0, description="A as an episode begins: an expected return per bar, above the target.")
        squared_loss: float = Field(0.0, ge=0, description="V as an episode begins: an expected squared loss.")
        warmup_steps: int = Field(20, ge=0, description="First steps of an episode, without reward.")
        limit: float = Field(10.0, gt=0, description="Largest size of the reward.")

    def init(self, n: int, xp: ArrayFunctions) -> NamedArrays:
        """A and V, and the number of returns."""
        return {
            "mean": xp.full(n, self.config.mean, dtype=xp.float64),
            "squared_loss": xp.full(n, self.config.squared_loss, dtype=xp.float64),
            "count": xp.zeros(n, dtype=xp.float64),
        }

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes the derivative, then moves the averages."""
        xp, config, gained = view.xp, self.config, step_return(view) - self.config.target
        mean, squared = state["mean"], state["squared_loss"]
        loss = xp.clip(gained, -xp.inf, 0.0)
        defined = (squared > _EPSILON) & (state["count"] >= config.warmup_steps)
        safe = xp.where(defined, squared, 1.0)
        slope = (safe * (gained - 0.5 * mean) - 0.5 * mean * loss * loss) / (safe * xp.sqrt(safe))
        out[...] = xp.where(defined, xp.clip(slope, -config.limit, config.limit), 0.0)

        count = state["count"] + 1.0
        rate = xp.where(count <= config.warmup_steps, 1.0 / count, config.eta)
        mean[...] = mean + rate * (gained - mean)
        squared[...] = squared + rate * (loss * loss - squared)
        state["count"][...] = count

"""The cost of an unsteady account."""

from __future__ import annotations

from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.kinds import RewardTerm
from alphaswarm_rl.core.types import BackendArray, NamedArrays
from alphaswarm_rl.core.view import ArrayFunctions, View
from alphaswarm_rl.rewards.step_return import step_return


class VolatilityPenalty(RewardTerm):
    """Minus `weight` times the standard deviation of the account's last `window` returns, per bar.

    The deviation is the sample's (ddof 1) over the returns of the episode so far, `window` at most; 0 before there are
    two.
    """

    rl_alias = "volatility_penalty"
    rl_category = "risk"

    class Config(ComponentConfig):
        """Parameters of the volatility penalty."""

        weight: float = Field(1.0, ge=0, description="Reward lost per unit of volatility.")
        window: int = Field(20, ge=2, description="Returns that are looked at.")

    def init(self, n: int, xp: ArrayFunctions) -> NamedArrays:
        """The last returns in a ring, and how many there have been."""
        return {
            "returns": xp.zeros((n, self.config.window), dtype=xp.float64),
            "count": xp.zeros(n, dtype=xp.int64),
        }

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes the penalty."""
        xp, window, returns, count = view.xp, self.config.window, state["returns"], state["count"]
        returns[xp.arange(view.n), count % window] = step_return(view)
        count[...] = count + 1
        known = xp.clip(count, 1, window)
        # Places of the ring that are still empty hold 0 and must not count as returns.
        filled = xp.arange(window)[None, :] < known[:, None]
        mean = xp.sum(returns, axis=-1) / known
        apart = xp.where(filled, returns - mean[:, None], 0.0)
        variance = xp.sum(apart * apart, axis=-1) / xp.clip(known - 1, 1, window)
        out[...] = -self.config.weight * xp.sqrt(variance)

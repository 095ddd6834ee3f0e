"""Money as a risk-averse agent feels it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.kinds import RewardTerm
from alphaswarm_rl.core.types import BackendArray, NamedArrays
from alphaswarm_rl.core.view import ArrayFunctions, View
from alphaswarm_rl.rewards.step_return import step_return

#: Exponents beyond this are cut, so that the utility stays finite.
_LARGEST_EXPONENT = 100.0
#: A risk aversion below this is none.
_NEUTRAL = 1e-12


class ExpUtility(RewardTerm):
    """Exponential utility u(x) = (1 - exp(-gamma x)) / gamma, of each return or of the wealth.

    `step`: the utility of the step's return. `telescoping`: the utility of the wealth, the account's value over the
    initial cash, minus that before the step. Summed over an episode this is the utility of the last wealth minus that
    of the first, so that it is the one that makes an agent maximise the utility of what it ends with.
    """

    rl_alias = "exp_utility"
    rl_category = "risk-adjusted"

    class Config(ComponentConfig):
        """Parameters of the utility."""

        gamma: float = Field(1.0, description="Risk aversion; 0 is neutral, below 0 risk is sought.")
        mode: Literal["step", "telescoping"] = Field(
            "step", description="Whether each return is felt on its own, or the wealth as it grows."
        )

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes the utility gained."""
        if self.config.mode == "step":
            out[...] = self._utility(view.xp, step_return(view))
        else:
            wealth, before = view.value / view.initial_cash, view.value_before / view.initial_cash
            out[...] = self._utility(view.xp, wealth) - self._utility(view.xp, before)

    def _utility(self, xp: ArrayFunctions, x: BackendArray) -> BackendArray:
        gamma = self.config.gamma
        if abs(gamma) < _NEUTRAL:
            return x
        return -xp.expm1(xp.clip(-gamma * x, -_LARGEST_EXPONENT, _LARGEST_EXPONENT)) / gamma

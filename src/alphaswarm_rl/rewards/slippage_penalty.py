"""What trading would have cost at worse prices."""

from __future__ import annotations

from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.kinds import RewardTerm
from alphaswarm_rl.core.types import BackendArray, NamedArrays
from alphaswarm_rl.core.view import View


class SlippagePenalty(RewardTerm):
    """Minus what the step would have cost, had every fill been `bps` basis points worse, times `scale`.

    The money traded is units times the step's fill prices, summed over the assets. The account itself pays nothing.
    """

    rl_alias = "slippage_penalty"
    rl_category = "cost"

    class Config(ComponentConfig):
        """Parameters of the slippage penalty."""

        bps: float = Field(5.0, ge=0, description="Slippage, in basis points of the money traded.")
        scale: float = Field(1e-4, gt=0, description="Reward per unit of money, as of the profit term.")

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes the penalty."""
        # Not of `traded`: what was bought and sold inside one bar is nothing there.
        notional = view.turnover * view.value_before
        out[...] = -self.config.scale * self.config.bps * 1e-4 * notional

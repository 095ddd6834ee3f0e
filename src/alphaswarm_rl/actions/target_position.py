"""Leveraged target positions."""

from __future__ import annotations

from pydantic import Field

from alphaswarm_rl.actions.encoding import cast
from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.contracts import Trade
from alphaswarm_rl.core.kinds import ActionSpec
from alphaswarm_rl.core.types import AnySpace, BackendArray, NamedArrays
from alphaswarm_rl.core.view import Panel, View


class TargetPosition(ActionSpec):
    """One number from -1 to 1 per asset, times `leverage`: the target weight, as it is.

    Nothing is normalised: what the account cannot carry, its margin cuts, all targets by one factor.
    """

    rl_alias = "target_position"
    rl_category = "weights"

    class Config(ComponentConfig):
        """Parameters of target positions."""

        short: bool = Field(False, description="Whether targets may be negative; needs an account with margin.")
        leverage: float = Field(1.0, gt=0, description="Weight of a full position.")

    def space(self, panel: Panel) -> AnySpace:
        """One number per asset."""
        import numpy as np
        from gymnasium.spaces import Box

        return Box(self._low, 1.0, (panel.num_assets,), np.float32)

    def trade(self, panel: Panel) -> Trade:
        """Weights."""
        return Trade("weights")

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes the target weights."""
        out[...] = view.xp.clip(view.action, self._low, 1.0)
        out *= self.config.leverage

    def encode(self, view: View, weights: BackendArray) -> BackendArray | None:
        """Those weights over the leverage, within the bounds."""
        return cast(view.xp, view.xp.clip(weights / self.config.leverage, self._low, 1.0), view.xp.float32)

    @property
    def _low(self) -> float:
        return -1.0 if self.config.short else 0.0

"""Leveraged target positions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

from alphaswarm_rl.actions.encoding import cast
from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.contracts import Trade
from alphaswarm_rl.core.kinds import ActionSpec

if TYPE_CHECKING:
    from gymnasium import Space


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

    def space(self, panel: Any) -> Space[Any]:
        """One number per asset."""
        from gymnasium.spaces import Box

        return Box(self._low, 1.0, (panel.num_assets,), np.float32)

    def trade(self, panel: Any) -> Trade:
        """Weights."""
        return Trade("weights")

    def step(self, view: Any, state: dict[str, Any], out: Any) -> None:
        """Writes the target weights."""
        out[...] = view.xp.clip(view.action, self._low, 1.0)
        out *= self.config.leverage

    def encode(self, view: Any, weights: Any) -> Any:
        """Those weights over the leverage, within the bounds."""
        return cast(view.xp, view.xp.clip(weights / self.config.leverage, self._low, 1.0), view.xp.float32)

    @property
    def _low(self) -> float:
        return -1.0 if self.config.short else 0.0

"""Weights that may sum to less than one."""

from __future__ import annotations

from pydantic import Field

from alphaswarm_rl.actions.encoding import cast
from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.contracts import Trade
from alphaswarm_rl.core.kinds import ActionSpec
from alphaswarm_rl.core.types import AnySpace, BackendArray, NamedArrays
from alphaswarm_rl.core.view import ArrayFunctions, Panel, View


class ContinuousWeights(ActionSpec):
    """One weight per asset, at most `max_weight`, scaled down only where they sum to more than `gross`.

    The sum is of absolute values. What is left is cash and is never scaled away.
    """

    rl_alias = "continuous_weights"
    rl_category = "weights"

    class Config(ComponentConfig):
        """Parameters of weights."""

        short: bool = Field(False, description="Whether weights may be negative; needs an account with margin.")
        gross: float = Field(1.0, gt=0, description="Largest sum of absolute weights.")
        max_weight: float = Field(1.0, gt=0, le=1, description="Largest absolute weight of one asset.")

    def space(self, panel: Panel) -> AnySpace:
        """One number per asset."""
        import numpy as np
        from gymnasium.spaces import Box

        return Box(-1.0 if self.config.short else 0.0, 1.0, (panel.num_assets,), np.float32)

    def trade(self, panel: Panel) -> Trade:
        """Weights."""
        return Trade("weights")

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes the weights."""
        xp, gross = view.xp, self.config.gross
        out[...] = self._capped(xp, view.action)
        # The larger of the two: a divisor below `gross` would scale up.
        total = xp.clip(xp.sum(xp.abs(out), axis=-1), gross, xp.inf)
        out *= (gross / total)[:, None]

    def encode(self, view: View, weights: BackendArray) -> BackendArray | None:
        """Those weights within the bounds."""
        return cast(view.xp, self._capped(view.xp, weights), view.xp.float32)

    def _capped(self, xp: ArrayFunctions, weights: BackendArray) -> BackendArray:
        most = self.config.max_weight
        return xp.clip(weights, -most if self.config.short else 0.0, most)

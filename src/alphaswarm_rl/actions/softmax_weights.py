"""Weights by a softmax, cash among them."""

from __future__ import annotations

import math

from pydantic import Field

from alphaswarm_rl.actions.encoding import cast
from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.contracts import CASH, Trade
from alphaswarm_rl.core.kinds import ActionSpec
from alphaswarm_rl.core.types import AnySpace, BackendArray, NamedArrays
from alphaswarm_rl.core.view import ArrayFunctions, Panel, View


class SoftmaxWeights(ActionSpec):
    """One number for cash and one per asset, cash first; their softmax is the weights.

    The ratio of two weights is at most exp(2 `bound`): with a small bound no policy can put all in one asset.
    """

    rl_alias = "softmax_weights"
    rl_category = "weights"

    class Config(ComponentConfig):
        """Parameters of softmax weights."""

        bound: float = Field(10.0, gt=0, le=20, description="Largest absolute value of a number before the softmax.")

    def space(self, panel: Panel) -> AnySpace:
        """One number for cash, one per asset."""
        import numpy as np
        from gymnasium.spaces import Box

        bound = self.config.bound
        return Box(-bound, bound, (1 + panel.num_assets,), np.float32)

    def symbols(self, panel: Panel) -> tuple[str, ...]:
        """Cash, then the assets."""
        return (CASH, *panel.assets)

    def trade(self, panel: Panel) -> Trade:
        """Weights."""
        return Trade("weights")

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes the assets' part of the softmax."""
        xp, bound = view.xp, self.config.bound
        # The bound takes the place of the row's maximum: nothing overflows, and with it at most 20 nothing vanishes.
        parts = xp.exp(xp.clip(cast(xp, view.action, xp.float64), -bound, bound) - bound)
        out[...] = parts[:, 1:] / xp.sum(parts, axis=-1)[:, None]

    def encode(self, view: View, weights: BackendArray) -> BackendArray | None:
        """Logarithms of the weights, the smallest and the largest equally far from 0."""
        xp, bound = view.xp, self.config.bound
        cash = xp.clip(1.0 - xp.sum(weights, axis=-1), 0.0, 1.0)[:, None]
        logs = xp.log(xp.clip(xp.concatenate([cash, weights], axis=-1), math.exp(-2.0 * bound), 1.0))
        middle = (_largest(xp, logs) - _largest(xp, -logs)) / 2.0
        return cast(xp, xp.clip(logs - middle, -bound, bound), xp.float32)


def _largest(xp: ArrayFunctions, values: BackendArray) -> BackendArray:
    """Each row's largest value, (n, 1), by folding halves that may overlap."""
    while values.shape[1] > 1:
        half = (values.shape[1] + 1) // 2
        values = xp.maximum(values[:, :half], values[:, -half:])
    return values

"""Orders in units, as FinRL has them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from alphaswarm_rl.actions.encoding import as_meant, cast, nearest_whole, units_for
from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.contracts import Trade
from alphaswarm_rl.core.kinds import ActionSpec
from alphaswarm_rl.core.types import AnySpace, BackendArray, NamedArrays
from alphaswarm_rl.core.view import Panel, View


class IntegerShares(ActionSpec):
    """One number from -1 to 1 per asset, times `hmax`: units to buy or sell, whole unless said otherwise."""

    rl_alias = "integer_shares"
    #: 2: an order loses no unit to the rounding of float32.
    rl_version = 2
    rl_category = "shares"

    class Config(ComponentConfig):
        """Parameters of orders in units."""

        hmax: float = Field(100.0, gt=0, description="Largest order per asset and step, in units or money.")
        unit: Literal["shares", "money"] = Field("shares", description="What hmax counts.")
        whole: bool = Field(True, description="Whether only whole units trade.")

    def space(self, panel: Panel) -> AnySpace:
        """One number per asset."""
        import numpy as np
        from gymnasium.spaces import Box

        return Box(-1.0, 1.0, (panel.num_assets,), np.float32)

    def trade(self, panel: Panel) -> Trade:
        """Units."""
        return Trade("shares", whole=self.config.whole)

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes units per asset."""
        out[...] = view.xp.clip(view.action, -1.0, 1.0)
        out *= self.config.hmax
        if self.config.unit == "money":
            price = view.close
            out[...] = view.xp.where(price > 0, out / view.xp.where(price > 0, price, 1.0), 0.0)
        if self.config.whole:
            out[...] = as_meant(view.xp, out)

    def encode(self, view: View, weights: BackendArray) -> BackendArray | None:
        """Orders towards those weights at the current prices, as far as hmax reaches; in whole units where asked."""
        xp, config = view.xp, self.config
        move = units_for(view, weights) - view.positions
        if config.whole:
            # A quarter of a unit more survives the way through float32 and is cut off again.
            move = nearest_whole(xp, move)
            move = move + 0.25 * xp.sign(move)
        order = (move * view.close if config.unit == "money" else move) / config.hmax
        return cast(xp, xp.clip(order, -1.0, 1.0), xp.float32)

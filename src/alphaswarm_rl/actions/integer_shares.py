"""Orders in units, as FinRL has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from alphaswarm_rl.actions.encoding import cast, nearest_whole, units_for
from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.contracts import Trade
from alphaswarm_rl.core.kinds import ActionSpec

if TYPE_CHECKING:
    from gymnasium import Space


class IntegerShares(ActionSpec):
    """One number from -1 to 1 per asset, times `hmax`: units to buy or sell, whole unless said otherwise."""

    rl_alias = "integer_shares"
    rl_category = "shares"

    class Config(ComponentConfig):
        """Parameters of orders in units."""

        hmax: float = Field(100.0, gt=0, description="Largest order per asset and step, in units or money.")
        unit: Literal["shares", "money"] = Field("shares", description="What hmax counts.")
        whole: bool = Field(True, description="Whether only whole units trade.")

    def space(self, panel: Any) -> Space[Any]:
        """One number per asset."""
        from gymnasium.spaces import Box

        return Box(-1.0, 1.0, (panel.num_assets,), np.float32)

    def trade(self, panel: Any) -> Trade:
        """Units."""
        return Trade("shares", whole=self.config.whole)

    def step(self, view: Any, state: dict[str, Any], out: Any) -> None:
        """Writes units per asset."""
        out[...] = view.xp.clip(view.action, -1.0, 1.0)
        out *= self.config.hmax
        if self.config.unit == "money":
            price = view.close
            out[...] = view.xp.where(price > 0, out / view.xp.where(price > 0, price, 1.0), 0.0)

    def encode(self, view: Any, weights: Any) -> Any:
        """Orders towards those weights at the current prices, as far as hmax reaches; in whole units where asked."""
        xp, config = view.xp, self.config
        move = units_for(view, weights) - view.positions
        if config.whole:
            # A quarter of a unit more survives the way through float32 and is cut off again.
            move = nearest_whole(xp, move)
            move = move + 0.25 * xp.sign(move)
        order = (move * view.close if config.unit == "money" else move) / config.hmax
        return cast(xp, xp.clip(order, -1.0, 1.0), xp.float32)

"""Buy, sell or hold one asset."""

from __future__ import annotations

from pydantic import Field

from alphaswarm_rl.actions.encoding import cast
from alphaswarm_rl.actions.one_asset import OneAssetConfig, asset_index
from alphaswarm_rl.core.contracts import Trade
from alphaswarm_rl.core.kinds import ActionSpec
from alphaswarm_rl.core.types import AnySpace, BackendArray, NamedArrays
from alphaswarm_rl.core.view import Panel, View

_BUY, _SELL = 1, 2


class DiscreteBuySellHold(ActionSpec):
    """0 holds, 1 buys one asset with `fraction` of the equity, 2 sells all of it, or goes short.

    A buy while long and a sell while flat (or short) change nothing.
    """

    rl_alias = "discrete_buy_sell_hold"
    rl_category = "position"

    class Config(OneAssetConfig):
        """Parameters of buy, sell, hold."""

        fraction: float = Field(1.0, gt=0, description="Part of the equity that a position is opened with.")
        short: bool = Field(
            False, description="Whether a sell goes short with the same fraction; needs an account with margin."
        )

    def space(self, panel: Panel) -> AnySpace:
        """Hold, buy, sell."""
        from gymnasium.spaces import Discrete

        asset_index(self, panel)
        return Discrete(3)

    def trade(self, panel: Panel) -> Trade:
        """A position by fraction of the equity."""
        return Trade("position", asset=asset_index(self, panel), size=self.config.fraction)

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes 1 to be long, 0 to be flat or -1 to be short, NaN to leave it."""
        xp, action = view.xp, view.action
        out[...] = xp.where(action == _BUY, 1.0, xp.where(action == _SELL, -1.0 if self.config.short else 0.0, xp.nan))

    def encode(self, view: View, weights: BackendArray) -> BackendArray | None:
        """The action after which the asset's weight is nearest; hold among equals."""
        xp, asset = view.xp, asset_index(self, view.market.panel)
        wish, held = weights[:, asset], view.weights[:, asset]
        fraction = self.config.fraction
        bought = xp.where(held > 0, held, fraction)
        sold = xp.where(held < 0, held, -fraction) if self.config.short else xp.zeros_like(held)
        holding, buying, selling = xp.abs(held - wish), xp.abs(bought - wish), xp.abs(sold - wish)
        best = xp.where(buying < holding, _BUY, 0)
        best = xp.where(selling < xp.where(buying < holding, buying, holding), _SELL, best)
        return cast(xp, best, xp.int64)

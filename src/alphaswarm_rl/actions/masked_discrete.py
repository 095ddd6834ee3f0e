"""Lots of one asset, with masks."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from alphaswarm_rl.actions.encoding import cast, nearest_whole, units_for
from alphaswarm_rl.actions.one_asset import OneAssetConfig, asset_index
from alphaswarm_rl.core.contracts import Trade
from alphaswarm_rl.core.kinds import ActionSpec
from alphaswarm_rl.core.types import AnySpace, BackendArray, NamedArrays
from alphaswarm_rl.core.view import ArrayFunctions, Panel, View

#: A position this near to a whole number of lots, in lots, is one: sums of lots are off by rounding.
_ROUNDING = 1e-9


class MaskedDiscrete(ActionSpec):
    """Orders, or target positions, of up to `max_units` lots of one asset, with a mask of those that can be carried.

    Legal is what holds, what reduces the position, and what the equity at the current close can pay for in full, with
    a reserve of `cost_margin` of the value traded for costs; a short counts as much as a long. An illegal choice
    holds. The price of the fill decides anew: what then cannot be carried is not traded.

    Among target positions the one nearest to the position held is the one that holds.
    """

    rl_alias = "masked_discrete"
    rl_category = "position"
    rl_tags = ("masks",)

    class Config(OneAssetConfig):
        """Parameters of masked lots."""

        mode: Literal["orders", "targets"] = Field("orders", description="Whether lots are ordered or are the target.")
        max_units: int = Field(1, ge=1, description="Largest order, or largest position, in lots.")
        lot: float = Field(1.0, gt=0, description="Units in a lot.")
        short: bool = Field(False, description="Whether positions may be negative; needs an account with margin.")
        cost_margin: float = Field(
            0.01, ge=0, lt=1, description="Reserve for the costs of an order, as a fraction of the value traded."
        )

    def space(self, panel: Panel) -> AnySpace:
        """From the largest sell, or the lowest target, to the highest."""
        from gymnasium.spaces import Discrete

        asset_index(self, panel)
        return Discrete(self.config.max_units - self._lowest + 1)

    def trade(self, panel: Panel) -> Trade:
        """A position in units."""
        return Trade("position", asset=asset_index(self, panel), size=1.0, by_units=True)

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes the units to hold, NaN to leave the position as it is."""
        goals, holds, legal = self._judged(view, view.action[:, None] + self._lowest)
        out[...] = view.xp.where(legal & ~holds, goals, view.xp.nan)[:, 0]

    def mask(self, view: View, state: NamedArrays) -> BackendArray | None:
        """What can be carried at the current close, (n, actions)."""
        return self._judged(view, self._choices(view.xp))[2]

    def encode(self, view: View, weights: BackendArray) -> BackendArray | None:
        """The legal action after which the position is nearest; the lowest among equals."""
        xp, asset = view.xp, asset_index(self, view.market.panel)
        choices = self._choices(xp)
        goals, _, legal = self._judged(view, choices)
        away = xp.where(legal, xp.abs(goals - units_for(view, weights)[:, asset][:, None]), xp.inf)
        best, nearest = xp.zeros(view.n, dtype=xp.int64), away[:, 0]
        for choice in range(1, choices.shape[1]):
            nearer = away[:, choice] < nearest
            best = xp.where(nearer, choice, best)
            nearest = xp.where(nearer, away[:, choice], nearest)
        return cast(xp, best, xp.int64)

    @property
    def _lowest(self) -> int:
        only_longs = self.config.mode == "targets" and not self.config.short
        return 0 if only_longs else -int(self.config.max_units)

    def _choices(self, xp: ArrayFunctions) -> BackendArray:
        """Lots of every action, (1, actions)."""
        return xp.arange(self._lowest, self.config.max_units + 1)[None, :]

    def _judged(self, view: View, lots: BackendArray) -> tuple[BackendArray, BackendArray, BackendArray]:
        """For lots (n, k) or (1, k): units they lead to, whether they hold, whether they are legal; all (n, k)."""
        xp, config = view.xp, self.config
        asset = asset_index(self, view.market.panel)
        held, price = view.positions[:, asset][:, None], view.close[:, asset][:, None]
        now = held / config.lot
        whole = nearest_whole(xp, now)
        if config.mode == "orders":
            goals = (xp.where(xp.abs(now - whole) < _ROUNDING, whole, now) + lots) * config.lot
            holds = lots + xp.zeros_like(held) == 0
        else:
            goals = lots * config.lot + xp.zeros_like(held)
            holds = lots == xp.clip(whole, self._lowest, config.max_units)
        others = xp.sum(xp.abs(view.positions * view.close), axis=-1)[:, None] - xp.abs(held) * price
        reserve = config.cost_margin * xp.abs(goals - held) * price
        carried = view.value[:, None] - reserve >= others + xp.abs(goals) * price
        if not config.short:
            carried = carried & (goals >= 0)
        reduces = (xp.abs(goals) < xp.abs(held)) & (goals * held >= 0)
        trades = price > 0
        if view.market.fill.lag == 0:
            # The order fills in the bar that is seen, so whether it can is known.
            trades = trades & view.market.tradable[view.bar, asset][:, None]
        return goals, holds, holds | (trades & (reduces | carried))

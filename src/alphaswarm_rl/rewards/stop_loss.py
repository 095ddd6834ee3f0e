"""Value per step, less losses that were let run and profits that were taken too soon."""

from __future__ import annotations

from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.kinds import RewardTerm
from alphaswarm_rl.core.types import BackendArray, NamedArrays
from alphaswarm_rl.core.view import Panel, View
from alphaswarm_rl.market.unit_factor import unit_factor


class StopLoss(RewardTerm):
    """The return since the start per step made, with penalties and a bonus around the average buy price (FinRL).

    r = ((V - penalties + bonus) / initial cash - 1) / steps, with V the account's value. With b the average buy price
    before the step, weighted by shares, p the step's fill price and m = 1 + profit_loss_ratio (1 - stop):

    - cash below `cash_fraction` of the value is a penalty,
    - so is max(stop b - p, 0) for every unit held before the step,
    - of the units sold at a profit (p > b), max(m b - p, 0) is a penalty and max(p - m b, 0) a bonus.

    Short positions have neither.
    """

    rl_alias = "stop_loss"
    rl_category = "profit"
    tracks_cost = True
    asset_state = ("bought_at", "held")

    class Config(ComponentConfig):
        """Parameters of the stop-loss reward."""

        stop: float = Field(0.9, gt=0, lt=1, description="Price over average buy price below which holding on costs.")
        profit_loss_ratio: float = Field(
            2.0, gt=0, description="Least profit that is wanted of a sale, in multiples of the loss that stops."
        )
        cash_fraction: float = Field(0.1, ge=0, lt=1, description="Part of the value that should be in cash.")

    def prepare(self, panel: Panel) -> NamedArrays:
        """What a split makes of units, by bar, (T, A)."""
        return {"factor": unit_factor(panel)}

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes the reward, then remembers what is held and what it was bought for."""
        xp, config, price, factor = view.xp, self.config, view.fill_price, state["factor"]
        # Fills at the new bar come after its splits, fills at the old one before them.
        split = factor[view.bar] / factor[view.bar - view.market.fill.lag]
        bought_at, held = state["bought_at"] / split, xp.clip(state["held"], 0.0, xp.inf) * split
        # What is sold beyond the holding opens a short, which takes no profit.
        sold = xp.minimum(xp.clip(-view.traded, 0.0, xp.inf), held)
        enough = 1.0 + config.profit_loss_ratio * (1.0 - config.stop)
        # Above the wanted profit it is a bonus, below it a penalty.
        surplus = xp.where(price > bought_at, sold * (price - enough * bought_at), 0.0)
        run_on = held * xp.clip(config.stop * bought_at - price, 0.0, xp.inf)
        missing = xp.clip(config.cash_fraction * view.value - view.cash, 0.0, xp.inf)
        counted = view.value - missing + xp.sum(surplus - run_on, axis=-1)
        out[...] = (counted / view.initial_cash - 1.0) / xp.where(view.steps > 0, view.steps, 1)
        state["bought_at"][...] = view.average_cost
        state["held"][...] = view.positions

"""Entries with a stop-loss and a take-profit."""

from __future__ import annotations

from itertools import product
from typing import Annotated

from pydantic import Field, model_validator

from alphaswarm_rl.actions.one_asset import OneAssetConfig, asset_index
from alphaswarm_rl.core.contracts import Trade
from alphaswarm_rl.core.kinds import ActionSpec
from alphaswarm_rl.core.types import AnySpace, BackendArray, NamedArrays
from alphaswarm_rl.core.view import ArrayFunctions, Panel, View

Distance = Annotated[float, Field(gt=0)]


class Bracket(ActionSpec):
    """Enters one asset with a stop-loss and a take-profit, which close the position inside a bar.

    0 holds, 1 closes, the others enter: long before short, then by stop-loss, then by take-profit. An entry on the side
    that is held changes nothing, on the other side it turns the position round.

    Levels are fractions of the fill price away from it; a split moves them along, a dividend does not. In a bar the
    stop is looked at first. A stop fills at its level, or at the open where the bar opens beyond it; a take-profit
    fills at its level. A position that was entered at the bar's close is first looked at in the next bar; where
    positions are entered at closes, a bracket goes before the order of the same bar.
    """

    rl_alias = "bracket"
    rl_category = "position"
    needs = ("high", "low", "open")

    class Config(OneAssetConfig):
        """Parameters of brackets."""

        stop_losses: list[Annotated[Distance, Field(lt=1)]] = Field(
            default_factory=lambda: [0.02, 0.05], min_length=1, description="Distances of the stop, as fractions."
        )
        take_profits: list[Distance] = Field(
            default_factory=lambda: [0.04, 0.1], min_length=1, description="Distances of the take-profit, as fractions."
        )
        fraction: float = Field(1.0, gt=0, description="Part of the equity that a position is opened with.")
        short: bool = Field(False, description="Whether it can enter short; needs an account with margin.")

        @model_validator(mode="after")
        def _profits_of_shorts_end_at_nothing(self) -> Bracket.Config:
            if self.short and max(self.take_profits) >= 1:
                raise ValueError("with short, take_profits must be below 1: no price falls by more")
            return self

    def init(self, n: int, xp: ArrayFunctions) -> NamedArrays:
        """Prices that close the position, before any split of the panel; 0 where there is none."""
        return {"stop": xp.zeros(n, dtype=xp.float64), "take": xp.zeros(n, dtype=xp.float64)}

    def prepare(self, panel: Panel) -> NamedArrays:
        """The asset's prices and units after splits by bar; side and distances by action."""
        import numpy as np

        asset = asset_index(self, panel)
        prices = {name: np.nan_to_num(getattr(panel, name)[:, asset]) for name in ("open", "high", "low")}
        splits = None if panel.adjusted else panel.splits
        units = np.ones(panel.num_bars) if splits is None else np.cumprod(splits[:, asset])
        none = (0.0, 0.0, 0.0)
        table = np.array([none, none, *product(self._sides, self.config.stop_losses, self.config.take_profits)])
        side, stop, take = np.ascontiguousarray(table.T)
        return {**prices, "units": units, "action_side": side, "action_stop": stop, "action_take": take}

    def space(self, panel: Panel) -> AnySpace:
        """Hold, close, and every entry."""
        from gymnasium.spaces import Discrete

        asset_index(self, panel)
        entries = len(self._sides) * len(self.config.stop_losses) * len(self.config.take_profits)
        return Discrete(2 + entries)

    def trade(self, panel: Panel) -> Trade:
        """A position by fraction of the equity, with exits."""
        return Trade("position", asset=asset_index(self, panel), size=self.config.fraction, bracket=True)

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes the side to be on, NaN to leave the position as it is."""
        xp = view.xp
        side = state["action_side"][view.action]
        held = xp.sign(view.positions[:, asset_index(self, view.market.panel)])
        # Said here and not left to the fill: by then a bracket may have closed the position.
        leave = (view.action == 0) | ((side != 0) & (side == held))
        out[...] = xp.where(leave, xp.nan, side)

    def exits(self, view: View, state: NamedArrays) -> BackendArray:
        """Prices at which brackets close positions in the bar `view.bar`, (n,); NaN where they do not.

        It is asked after the step's fill; where orders fill at the bar's close, also before it. Levels of positions
        that the fill opened are set here.
        """
        xp, fill = view.xp, view.market.fill
        asset = asset_index(self, view.market.panel)
        side = xp.sign(view.positions[:, asset])
        entered, stop, take = self._levels(view, state, asset, side)
        now = state["units"][view.bar]
        first, high, low = state["open"][view.bar], state["high"][view.bar], state["low"][view.bar]
        looked_at = (side != 0) & view.market.tradable[view.bar, asset]
        if fill.lag and fill.price == "close":
            looked_at = looked_at & ~entered
        price = _exit_price(xp, side, stop / now, take / now, first, high, low)
        price = xp.where(looked_at, price, xp.nan)
        stays = (side != 0) & xp.isnan(price)
        state["stop"][...] = xp.where(stays, stop, 0.0)
        state["take"][...] = xp.where(stays, take, 0.0)
        return price

    def legs(self, view: View, state: NamedArrays) -> tuple[BackendArray, BackendArray]:
        """Levels at the action's distances from the last close."""
        close = view.close[:, asset_index(self, view.market.panel)]
        side = state["action_side"][view.action]
        away = (-state["action_stop"][view.action], state["action_take"][view.action])
        stop, take = (close + side * close * distance for distance in away)
        return stop, take

    def stops(self, view: View, state: NamedArrays) -> BackendArray:
        """Whether the bar reaches the stop: it is looked at before the take-profit."""
        asset = asset_index(self, view.market.panel)
        side = view.xp.sign(view.positions[:, asset])
        _, stop, _ = self._levels(view, state, asset, side)
        first, high, low = state["open"][view.bar], state["high"][view.bar], state["low"][view.bar]
        return _is_stopped(view.xp, side, stop / state["units"][view.bar], first, high, low)

    def _levels(
        self, view: View, state: NamedArrays, asset: int, side: BackendArray
    ) -> tuple[BackendArray, BackendArray, BackendArray]:
        """Which positions the fill opened, and the stop and take-profit of all, before any split of the panel."""
        xp, fill = view.xp, view.market.fill
        entered = (view.traded[:, asset] != 0) & (side != 0)
        # Levels are kept as prices of the units that the panel began with; a later split only changes the reading.
        entry = view.fill_price[:, asset] * state["units"][view.bar - (1 - fill.lag)]
        # Distances are added: times 1.1, an entry at 100 would have its level a hair above 110.
        stop = xp.where(entered, entry - side * entry * state["action_stop"][view.action], state["stop"])
        take = xp.where(entered, entry + side * entry * state["action_take"][view.action], state["take"])
        return entered, stop, take

    @property
    def _sides(self) -> tuple[float, ...]:
        return (1.0, -1.0) if self.config.short else (1.0,)


def _exit_price(
    xp: ArrayFunctions,
    side: BackendArray,
    stop: BackendArray,
    take: BackendArray,
    first: BackendArray,
    high: BackendArray,
    low: BackendArray,
) -> BackendArray:
    """Where the bar that opens at `first` closes a position; NaN where it does not."""
    best = xp.where(side > 0, high, low)
    gapped = side * first <= side * stop
    stopped = _is_stopped(xp, side, stop, first, high, low)
    taken = side * best >= side * take
    return xp.where(stopped, xp.where(gapped, first, stop), xp.where(taken, take, xp.nan))


def _is_stopped(
    xp: ArrayFunctions,
    side: BackendArray,
    stop: BackendArray,
    first: BackendArray,
    high: BackendArray,
    low: BackendArray,
) -> BackendArray:
    """Whether the bar that opens at `first` reaches the stop."""
    worst = xp.where(side > 0, low, high)
    return (side * first <= side * stop) | (side * worst <= side * stop)

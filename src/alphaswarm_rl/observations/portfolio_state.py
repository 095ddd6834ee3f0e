"""The account itself."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.kinds import ObservationBuilder
from alphaswarm_rl.core.types import BackendArray, NamedArrays
from alphaswarm_rl.core.view import Panel, View

Piece = Literal["cash", "prices", "holdings", "value", "drawdown", "time_left"]


class PortfolioState(ObservationBuilder):
    """The account: cash, prices and holdings, each in its own scale.

    Relative: cash and holdings are parts of the account's value, prices are over those of the episode's first bar
    minus 1, and the value is over the initial cash minus 1. Raw, as FinRL shows them: money, money per unit, units.
    `drawdown` and `time_left` (the part of the episode that is left) are the same in both.
    """

    rl_alias = "portfolio_state"
    rl_category = "account"

    class Config(ComponentConfig):
        """Parameters of the account's observation."""

        pieces: list[Piece] = Field(["cash", "holdings"], min_length=1, description="What is shown, in this order.")
        raw: bool = Field(False, description="Whether money, prices and units are shown as they are.")

    def names(self, panel: Panel) -> tuple[str, ...]:
        """`cash`, `price:KO`, `holding:KO`, ..."""
        found: list[str] = []
        for piece in self.config.pieces:
            per_asset = {"prices": "price", "holdings": "holding"}.get(piece)
            found += [piece] if per_asset is None else [f"{per_asset}:{asset}" for asset in panel.assets]
        return tuple(found)

    def prepare(self, panel: Panel) -> NamedArrays:
        """Prices of the first bar's units, where splits change what a unit is."""
        import numpy as np

        from alphaswarm_rl.market.unit_factor import unit_factor

        if "prices" not in self.config.pieces or panel.adjusted or panel.splits is None or (panel.splits == 1).all():
            return {}
        return {"prices": np.nan_to_num(panel.close, nan=0.0) * unit_factor(panel)}

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes the pieces side by side."""
        left, assets, raw = 0, view.market.assets, self.config.raw
        for piece in self._passes():
            if piece == "prices":
                prices = out[:, left : left + assets]
                if raw:
                    view.take(view.market.close, prices)
                else:
                    view.take_growth(state.get("prices", view.market.close), prices)
                left += assets
            elif piece == "cash and holdings":
                view.take_weights(out[:, left : left + 1 + assets], cash=True)
                left += 1 + assets
            elif piece == "holdings":
                holdings = out[:, left : left + assets]
                if raw:
                    holdings[...] = view.positions
                else:
                    view.take_weights(holdings)
                left += assets
            else:
                out[:, left] = self._number(piece, view)
                left += 1

    def _passes(self) -> list[str]:
        """Pieces as they are written: relative cash and the holdings after it in one pass over the rows."""
        passes: list[str] = []
        for piece in self.config.pieces:
            if piece == "holdings" and not self.config.raw and passes[-1:] == ["cash"]:
                passes[-1] = "cash and holdings"
            else:
                passes.append(piece)
        return passes

    def _number(self, piece: str, view: View) -> BackendArray:
        raw = self.config.raw
        if piece == "cash":
            return view.cash if raw else view.cash / view.xp.where(view.value > 0, view.value, view.xp.inf)
        if piece == "value":
            return view.value if raw else view.value / view.initial_cash - 1.0
        if piece == "drawdown":
            return view.drawdown
        return (view.last - view.bar) / (view.last - view.start)

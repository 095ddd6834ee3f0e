"""Profit, with a look at what a position would still earn."""

from __future__ import annotations

from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.kinds import RewardTerm
from alphaswarm_rl.core.types import BackendArray, NamedArrays
from alphaswarm_rl.core.view import Panel, View
from alphaswarm_rl.market.unit_factor import unit_factor


class Hindsight(RewardTerm):
    """Money earned in the step plus `weight` times what its positions earn within `horizon` bars (DeepScalper).

    With a decision at bar t, the step's change of the account's value, after all costs, plus `weight` times the sum
    over the assets of position times (p(t + horizon) - p(t)), all times `scale`; without weight it is the term `pnl`.
    Beyond the data the price of the last bar stands. It knows the future and so serves training alone.
    """

    rl_alias = "hindsight"
    rl_category = "profit"
    training_only = True

    class Config(ComponentConfig):
        """Parameters of the hindsight reward."""

        weight: float = Field(0.2, ge=0, description="Weight of what the positions will earn.")
        horizon: int = Field(5, ge=1, description="Bars from the decision that are looked ahead.")
        scale: float = Field(1e-4, gt=0, description="Reward per unit of money.")

    def prepare(self, panel: Panel) -> NamedArrays:
        """What a unit held at bar t + 1 earns from t to t + horizon, by bar t + 1, (T, A)."""
        import numpy as np

        factor = unit_factor(panel)
        prices = panel.close * factor
        ahead = np.minimum(np.arange(panel.num_bars - 1) + self.config.horizon, panel.num_bars - 1)
        earned = np.zeros(prices.shape)
        earned[1:] = (prices[ahead] - prices[:-1]) / factor[1:]
        return {"earned": np.nan_to_num(earned, nan=0.0)}

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes the profit with its look ahead."""
        ahead = view.xp.sum(view.positions * state["earned"][view.bar], axis=-1)
        out[...] = (view.value - view.value_before + self.config.weight * ahead) * self.config.scale

"""Orders in units or money, with a stop-loss on every asset."""

from __future__ import annotations

from pydantic import Field

from alphaswarm_rl.actions.integer_shares import IntegerShares
from alphaswarm_rl.core.types import BackendArray, NamedArrays
from alphaswarm_rl.core.view import View


class StopLossShares(IntegerShares):
    """As `integer_shares`, but an asset whose close is at or below `stop` times its average buy price is sold."""

    rl_alias = "stop_loss_shares"
    tracks_cost = True
    stops_orders = True

    class Config(IntegerShares.Config):
        """Parameters of orders with a stop-loss."""

        stop: float = Field(0.9, gt=0, lt=1, description="Close over average buy price at or below which all is sold.")

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes units per asset."""
        super().step(view, state, out)
        out[...] = view.xp.where(self.stopped(view, state), -view.positions, out)

    def stopped(self, view: View, state: NamedArrays) -> BackendArray:
        """Assets that are held and have fallen that far."""
        return (view.positions > 0) & (view.close <= self.config.stop * view.average_cost)

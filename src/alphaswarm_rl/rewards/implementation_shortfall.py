"""What it cost to get an order done."""

from __future__ import annotations

from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.kinds import RewardTerm
from alphaswarm_rl.core.types import BackendArray, NamedArrays
from alphaswarm_rl.core.view import Panel, View
from alphaswarm_rl.market.unit_factor import unit_factor


class ImplementationShortfall(RewardTerm):
    """Minus what the step's fills cost against the prices at arrival, over the arrival notional (Perold 1988).

    The arrival price S0 of an asset is its close at the episode's first bar. A step that buys n units (sells: n < 0) at
    the fill price P and pays the costs f is rewarded with

        r = -(sum over assets of n (P - S0) + f) / notional.

    Buys above and sells below the arrival price lose alike. An asset that had no price at arrival counts with its costs
    alone. What is closed by force is taken to fill at the step's fill price too.

    With `quantity`, each asset has an order of X units (negative: to sell), the notional is the sum of |X| S0, and the
    episode's last step, however it ends, is charged for what is still open at the close S of its bar, (X - filled)
    (S - S0): the rewards of an episode sum to minus the order's implementation shortfall over its notional. Without
    it, whatever is traded is the order, and the notional is the initial cash. Where the notional is 0 the reward is 0.
    """

    rl_alias = "implementation_shortfall"
    rl_category = "execution"

    class Config(ComponentConfig):
        """Parameters of the implementation shortfall."""

        quantity: float | None = Field(
            None, description="Units to be traded of each asset, negative to sell; null: no order is given."
        )

    def prepare(self, panel: Panel) -> NamedArrays:
        """What a split makes of units, by bar, (T, A)."""
        return {"factor": unit_factor(panel)}

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes minus the shortfall of the step."""
        xp, factor, quantity = view.xp, state["factor"], self.config.quantity
        arrival = view.market.close[view.start]
        priced = arrival > 0
        # In units of the first bar, so that splits on the way change nothing.
        arrived = arrival * factor[view.start]
        filled_at = factor[view.bar - 1 + view.market.fill.lag]
        paid = view.traded * (view.fill_price - arrived / filled_at)
        shortfall = xp.sum(xp.where(priced, paid, 0.0), axis=-1) + view.cost
        if quantity is None:
            out[...] = -shortfall / view.initial_cash
            return
        now = factor[view.bar]
        # Accounts start without positions: what is held is what was filled.
        open_units = quantity * now / factor[view.start] - view.positions
        missed = xp.sum(xp.where(priced, open_units * (view.close - arrived / now), 0.0), axis=-1)
        ended = view.terminated | view.truncated
        notional = abs(quantity) * xp.sum(arrival, axis=-1)
        defined = notional > 0
        total = shortfall + xp.where(ended, missed, 0.0)
        out[...] = xp.where(defined, -total, 0.0) / xp.where(defined, notional, 1.0)

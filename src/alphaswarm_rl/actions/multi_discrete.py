"""Orders in steps."""

from __future__ import annotations

from pydantic import Field, field_validator

from alphaswarm_rl.actions.encoding import cast, nearest_whole, units_for
from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.contracts import Trade
from alphaswarm_rl.core.kinds import ActionSpec
from alphaswarm_rl.core.types import AnySpace, BackendArray, NamedArrays
from alphaswarm_rl.core.view import Panel, View


class MultiDiscreteOrders(ActionSpec):
    """One of `levels` orders per asset, evenly from selling `hmax` shares over none to buying `hmax`; whole shares."""

    rl_alias = "multi_discrete"
    rl_category = "shares"

    class Config(ComponentConfig):
        """Parameters of orders in steps."""

        levels: int = Field(3, ge=3, description="Number of orders to choose from, odd: the middle one is none.")
        hmax: float = Field(100.0, gt=0, description="Largest order per asset and step, in shares.")

        @field_validator("levels")
        @classmethod
        def _has_a_middle(cls, levels: int) -> int:
            if levels % 2 == 0:
                raise ValueError("it must be odd, so that the middle level orders nothing")
            return levels

    def space(self, panel: Panel) -> AnySpace:
        """One level per asset."""
        from gymnasium.spaces import MultiDiscrete

        return MultiDiscrete([self.config.levels] * panel.num_assets)

    def trade(self, panel: Panel) -> Trade:
        """How its numbers are traded: as orders of whole shares."""
        return Trade("shares", whole=True)

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes shares per asset."""
        out[...] = view.action
        out -= self._middle
        # First times hmax, then divided: a whole number of shares stays whole.
        out *= self.config.hmax
        out /= self._middle

    def encode(self, view: View, weights: BackendArray) -> BackendArray | None:
        """The levels nearest to the orders that lead there at the current closes."""
        xp, middle = view.xp, self._middle
        order = (units_for(view, weights) - view.positions) / self.config.hmax
        return cast(xp, nearest_whole(xp, xp.clip(order, -1.0, 1.0) * middle) + middle, xp.int64)

    @property
    def _middle(self) -> int:
        return int(self.config.levels - 1) // 2

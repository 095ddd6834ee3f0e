"""A part of an environment together with its arrays."""

from __future__ import annotations

from typing import Any

from alphaswarm_rl.core.kinds import SmallComponent
from alphaswarm_rl.market.market import Market
from alphaswarm_rl.market.view import View


class Part:
    """A component, its state arrays for n environments, and the arrays it shares among them.

    Args:
        component: The component.
        market: What its shared arrays are made from.
        n: Number of environments.
    """

    def __init__(self, component: SmallComponent, market: Market, n: int) -> None:
        self.component = component
        self.backend = market.backend
        self._assets = market.assets
        self.own = self._fresh(n)
        shared = {name: market.backend.put(table) for name, table in component.prepare(market.panel).items()}
        self.state = {**shared, **self.own}

    def step(self, view: View, out: Any) -> None:
        """One step of all environments."""
        self.component.step(view, self.state, out)

    def step_rows(self, view: View, rows: Any, out: Any) -> None:
        """The same for some of them, of which `view` is the view."""
        if not self.own:
            self.component.step(view, self.state, out)
            return
        part = {name: array[rows] for name, array in self.own.items()}
        self.component.step(view, {**self.state, **part}, out)
        for name, array in part.items():
            self.own[name][rows] = array

    def begin(self, rows: Any) -> None:
        """Puts the state of some environments back to the start of an episode."""
        if self.own:
            for name, array in self._fresh(len(rows)).items():
                self.own[name][rows] = array

    def _fresh(self, n: int) -> dict[str, Any]:
        xp = self.backend.xp
        by_asset = {name: xp.zeros((n, self._assets), dtype=xp.float64) for name in self.component.asset_state}
        return {**self.component.init(n, xp), **by_asset}

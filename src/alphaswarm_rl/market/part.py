"""A component together with its arrays: what environments, observers and deciders step."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Self

from alphaswarm_rl.arrays.backend_numpy import NUMPY
from alphaswarm_rl.core.kinds import SmallComponent
from alphaswarm_rl.core.types import Array, BackendArray, NamedArrays
from alphaswarm_rl.core.view import View
from alphaswarm_rl.market.growing_array import GrowingArray
from alphaswarm_rl.market.market import Market
from alphaswarm_rl.market.panel import FEWEST_BARS


class Part:
    """A component, its own arrays for n accounts, and the arrays that all accounts share.

    Components are stateless: what one remembers from step to step lies in arrays with one row per account, and what it
    prepares from the panel lies in arrays by bar or by asset.

    Args:
        component: The component.
        market: What its shared arrays are made from.
        n: Number of accounts.

    Attributes:
        own: Its own arrays by name, changed in place.
        state: Own and shared arrays: what the component's `step` is given.
    """

    def __init__(self, component: SmallComponent, market: Market, n: int) -> None:
        self.component = component
        self._xp, self._assets, self._bars = market.backend.xp, market.assets, market.panel.num_bars
        self._tables: dict[str, GrowingArray] = {}
        self.own = self.fresh(n)
        self.state = {**self._shared(market), **self.own}

    def fresh(self, n: int) -> NamedArrays:
        """Its own arrays as an episode begins for n accounts."""
        xp = self._xp
        by_asset = {name: xp.zeros((n, self._assets), dtype=xp.float64) for name in self.component.asset_state}
        return {**self.component.init(n, xp), **by_asset}

    def step(self, view: View, out: BackendArray) -> None:
        """One step of all accounts."""
        self.component.step(view, self.state, out)

    def step_rows(self, view: View, rows: Array, out: BackendArray) -> None:
        """One step of some accounts, which `view` shows."""
        own = {name: array[rows] for name, array in self.own.items()}
        self.component.step(view, {**self.state, **own}, out)
        for name, array in own.items():
            self.own[name][rows] = array

    def begin(self, rows: Array) -> None:
        """Puts the arrays of some accounts back to the start of an episode."""
        if self.own:
            for name, array in self.fresh(len(rows)).items():
                self.own[name][rows] = array

    def extend(self, market: Market) -> None:
        """Goes on with a market of more bars behind the same ones; its own arrays stay.

        Where the component says from how many bars it makes a row, only the new rows are made.
        """
        shared = self._rows_behind(market)
        if shared is None:
            self._tables.clear()  # they lack the rows that are made anew here
            shared = self._shared(market)
        self.state = {**shared, **self.own}
        self._bars = market.panel.num_bars

    def _rows_behind(self, market: Market) -> NamedArrays | None:
        """The shared arrays with rows for the new bars; None where all must be made anew."""
        reach = self.component.prepared_from() if type(self) is Part else None
        bars, panel = self._bars, market.panel
        begin = 0 if reach is None else min(bars - reach, panel.num_bars - FEWEST_BARS)
        if begin <= 0 or panel.num_bars - begin == bars or self._xp is not NUMPY.xp:
            return None
        shared = {name: array for name, array in self.state.items() if name not in self.own}
        for name, made in self.component.prepare(panel.cut(begin, panel.num_bars)).items():
            # A table by bar is as long as the bars, which another one is not for two numbers of bars.
            if len(made) == panel.num_bars - begin and len(shared[name]) == bars:
                table = self._tables.setdefault(name, GrowingArray(shared[name]))
                shared[name] = table.add(NUMPY.put(made[bars - begin :]))
            else:
                shared[name] = NUMPY.put(made)
        return shared

    def holding(self, own: Mapping[str, BackendArray]) -> Self:
        """The same part with other arrays of its own, for steps that are functions of tensors."""
        part = copy(self)
        part.own = dict(own)
        part.state = {**self.state, **own}
        return part

    def _shared(self, market: Market) -> NamedArrays:
        return {name: market.backend.put(table) for name, table in self.component.prepare(market.panel).items()}

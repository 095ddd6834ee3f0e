"""Orders in units on an account of any margin: what reduces a position comes first, then what the account carries.

The definition in plain floats; `Book.trade_units` is this, and the kernels are held to it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from alphaswarm_rl.market.costs import CostRates, carried, fee
from alphaswarm_rl.market.margin import Margin
from alphaswarm_rl.market.quotes import Numbers, Quotes


class _Opening(NamedTuple):
    """The part of an order that opens or enlarges a position: `beyond` units, after `back` units that closed one."""

    asset: int
    order: float
    back: float
    beyond: float


class UnitTrades:
    """One account while its orders are filled.

    Args:
        rates: What trading costs.
        margin: What may be owed.
        cash: Money before.
        positions: Units before; they are not changed.
        quotes: The market at the fill.
        lot: Units that an order which is cut stays a multiple of; 0: any fraction.

    Attributes:
        cash: Money after.
        moved: Units traded by asset, in the order of their fills.
    """

    def __init__(
        self, rates: CostRates, margin: Margin, cash: float, positions: Sequence[float], quotes: Quotes, lot: float
    ) -> None:
        self.cash = cash
        self.moved: dict[int, float] = {}
        self._rates, self._margin, self._positions, self._quotes, self._lot = rates, margin, positions, quotes, lot
        #: Equity beyond the initial margin of what is held: in a cash account the cash.
        self._free = cash
        for position, price in zip(positions, quotes.prices, strict=True):
            if position:
                self._free += position * price - margin.initial * abs(position * price)

    def fill(self, orders: Numbers) -> None:
        """Fills the orders: reductions in the order of assets, then what opens, the most valuable first."""
        opening = [opened for asset, order in enumerate(orders) if (opened := self._reduce(asset, order)) is not None]
        for opened in sorted(opening, key=lambda one: -(one.beyond * self._quotes.prices[one.asset])):
            if self._open(opened) and self._lot == 0:
                break

    def _reduce(self, asset: int, order: float) -> _Opening | None:
        """Fills what reduces a position, unless costs eat up all that it brings; gives what is left to be opened."""
        if order == 0 or not self._quotes.trades(asset, self._rates):
            return None
        held = self._positions[asset]
        back = min(abs(order), abs(held)) if held != 0 and (order > 0) == (held < 0) else 0.0
        beyond = abs(order) - back if order > 0 or self._margin.short else 0.0
        if back > 0:
            value, paid = back * self._quotes.prices[asset], self._fee(asset, math.copysign(back, order))
            freed = self._margin.initial * value - paid
            if freed > 0 or self._margin.lends:
                self._free += freed
                self.cash += (value if order < 0 else -value) - paid
                self.moved[asset] = math.copysign(back, order)
        return _Opening(asset, order, back, beyond) if beyond > 0 else None

    def _open(self, opened: _Opening) -> bool:
        """Fills as much of it as the account carries, costs included; whether that is not all."""
        asset, order, back, beyond = opened
        price, before = self._quotes.prices[asset], self._fee(asset, math.copysign(back, order))
        added = self._fee(asset, order) - before
        needed = self._margin.initial * (beyond * price) + added
        cut = needed > self._free
        if cut:
            signed = math.copysign(back, order)
            volume = self._quotes.volume_of(asset)
            beyond = carried(self._rates, self._free, price, volume, signed, self._margin.initial, self._lot)
            if beyond == 0:
                return True
            order = math.copysign(back + beyond, order)
            added = self._fee(asset, order) - before
            needed = self._margin.initial * (beyond * price) + added
        self._free -= needed
        self.cash -= math.copysign(beyond * price, order) + added
        self.moved[asset] = order
        return cut

    def _fee(self, asset: int, quantity: float) -> float:
        return fee(self._rates, quantity, self._quotes.prices[asset], self._quotes.volume_of(asset)).total

"""What the units of a position were bought for."""

from __future__ import annotations

from typing import Any

from alphaswarm_rl.market.view import View


def average_cost(view: View) -> Any:
    """The average price of the units held after the view's step, (n, A): weighted by units, unchanged by sells.

    A split divides it as it multiplies units. Fills at the new bar come after its splits, fills at the old one before.
    """
    xp, market, average, positions = view.xp, view.market, view.average_cost, view.positions
    split = None if market.splits is None else market.splits[view.bar]
    if split is not None and market.fill.lag:
        average = average / split
    elif split is not None:
        positions = positions / split
    held, bought = positions > 0, xp.where(view.traded > 0, view.traded, 0.0)
    total = average * (positions - bought) + bought * view.fill_price
    after = xp.where(held, xp.where(bought > 0, total / xp.where(held, positions, 1.0), average), 0.0)
    return after if split is None or market.fill.lag else after / split

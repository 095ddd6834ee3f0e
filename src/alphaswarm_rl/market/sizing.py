"""From target weights to orders in units, when a decision is made.

The rules and what they mean for one account are `sizing_rules.SizingRules` and `Book.size_orders`, the definition. Here
are the batched forms, of NumPy and torch: what environments, engines and whoever sends orders call.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from alphaswarm_rl.core.contracts import Trade
from alphaswarm_rl.core.errors import BookError, DataError
from alphaswarm_rl.core.types import BackendArray
from alphaswarm_rl.market.costs import CostRates
from alphaswarm_rl.market.margin import Margin
from alphaswarm_rl.market.sizing_rules import SHORTFALLS as SHORTFALLS
from alphaswarm_rl.market.sizing_rules import SizingRules as SizingRules


@dataclass(frozen=True, eq=False)
class SizedOrders:
    """What n accounts order.

    Attributes:
        orders: Units to buy, negative to sell, (n, A) float64.
        reasons: Why an order is less than its weight asks for, indices into `SHORTFALLS`, (n, A) int8.
    """

    orders: BackendArray
    reasons: BackendArray


def size_orders(
    cash: BackendArray,
    positions: BackendArray,
    weights: BackendArray,
    prices: BackendArray,
    tradable: BackendArray,
    rates: CostRates,
    margin: Margin,
    rules: SizingRules,
    volume: BackendArray | None = None,
) -> SizedOrders:
    """Orders in units that make weights of what accounts hold, at the last known prices; NumPy's arrays or torch's.

    Weights are parts of the equity at these prices, before costs. Reductions come first, then what opens or enlarges a
    position, as far as cash or margin carry it, costs included. The accounts are not changed.

    Args:
        cash: Money, (n,) float64.
        positions: Units, (n, A) float64.
        weights: Target weights, (n, A) float64.
        prices: The last known prices, (n, A); 0 where there is none.
        tradable: Which assets trade, (n, A) bool.
        rates: What trading costs.
        margin: What may be owed.
        rules: Which orders are made.
        volume: Units that the bar traded, (n, A); needed by impact alone.
    """
    if rates.impact > 0 and volume is None:
        raise DataError(
            "column 'volume'", "the cost model has impact, which needs it to size orders", "Give volume, or no impact."
        )
    shape = tuple(positions.shape)
    for name, array in (("weights", weights), ("prices", prices), ("tradable", tradable)):
        if tuple(array.shape) != shape:
            raise BookError(f"{name} of shape {tuple(array.shape)}", f"positions are {shape}", "Give one per position.")
    if not isinstance(cash, np.ndarray):
        import torch

        from alphaswarm_rl.market import kernels_torch

        time = torch.arange(shape[0], device=cash.device)
        rows = kernels_torch.MarketRows(time, prices, tradable, volume)
        return SizedOrders(*kernels_torch.size_orders(cash, positions, weights, rows, rates, margin, rules))
    from alphaswarm_rl.market import kernels_numba

    orders, reasons = np.empty(shape), np.empty(shape, np.int8)
    market = (np.arange(shape[0]), prices, tradable, np.empty((0, 0)) if rates.impact == 0 else volume, np.array(rates))
    limits = (margin.initial, margin.short, *sizing_numbers(rules))
    kernels_numba.size_orders(0, shape[0], cash, positions, weights, *market, *limits, orders, reasons)
    return SizedOrders(orders, reasons)


def sizing_numbers(rules: SizingRules) -> tuple[float, float, float, float]:
    """The rules as the kernels take them: threshold, lot, least and most money of an order."""
    return float(rules.rebalance_threshold), float(rules.lot), float(rules.min_notional), rules.most


def refuse_unsizable(trade: Trade) -> None:
    """Refuses sizing where actions give no weights: their units are known when the decision is made as it is."""
    if trade.way != "weights":
        given = "orders in units" if trade.way == "shares" else "a position"
        raise BookError(
            "sizing at the decision",
            f"it makes units of weights, and the action gives {given}",
            "Leave sizing at at_fill, or use an action that gives weights, such as softmax_weights.",
        )

"""By which rules target weights become orders in units when a decision is made."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from alphaswarm_rl.core.errors import BookError
from alphaswarm_rl.market.rebalance import DUST

#: Why an order is not made, or is less than its weight asks for; the first means that nothing stands in its way.
SHORTFALLS = (
    "",
    "not_tradable",
    "no_equity",
    "below_threshold",
    "largest_order",
    "below_lot",
    "below_min_notional",
    "buying_power",
    "costs",
)
(
    NOTHING,
    NOT_TRADABLE,
    NO_EQUITY,
    BELOW_THRESHOLD,
    LARGEST_ORDER,
    BELOW_LOT,
    BELOW_MIN_NOTIONAL,
    BUYING_POWER,
    COSTS,
) = range(len(SHORTFALLS))


@dataclass(frozen=True)
class SizingRules:
    """Which orders are made. As it is by default, every difference from the weights is an order.

    Attributes:
        rebalance_threshold: Part of the equity below which a difference is no order; a weight of 0 always is.
        lot: Units that orders are whole multiples of, towards zero; 0: any fraction. A position whose weight is 0 is
            sold to the last fraction.
        min_notional: Least money of an order.
        max_order_notional: Most money of an order, which is cut to it; None: no limit.
    """

    rebalance_threshold: float = 0.0
    lot: float = 0.0
    min_notional: float = 0.0
    max_order_notional: float | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise BookError(f"sizing rule {field.name} = {value!r}", "it is not a number from 0 up", "Give one.")
        if self.max_order_notional is not None and not self.max_order_notional > self.min_notional:
            raise BookError(
                f"sizing rule max_order_notional = {self.max_order_notional!r}",
                f"no order is both below it and at least min_notional = {self.min_notional!r}",
                "Give a larger one, or none.",
            )

    @property
    def most(self) -> float:
        """The largest order in money; infinite where there is no limit."""
        return math.inf if self.max_order_notional is None else float(self.max_order_notional)

    def order(self, weight: float, held: float, equity: float, price: float) -> tuple[float, int]:
        """The order that makes a weight of the equity out of what is held, and why it is less; buying power apart.

        This is the definition. Batched forms, held to it by tests: `kernels_numba._order_by_rules` and
        `kernels_torch._orders_by_rules`.

        Args:
            weight: Part of the equity.
            held: Units held now.
            equity: Money, more than nothing.
            price: The last known price, more than nothing.
        """
        exits = weight == 0
        order = -held if exits else weight * equity / price - held
        if abs(order) * price <= DUST * equity:
            return 0.0, NOTHING
        if not exits and abs(order) * price < self.rebalance_threshold * equity:
            return 0.0, BELOW_THRESHOLD
        reason = NOTHING
        if abs(order) * price > self.most:
            order, reason, exits = math.copysign(self.most / price, order), LARGEST_ORDER, False
        if self.lot > 0 and not exits:
            order = float(math.trunc(order / self.lot)) * self.lot
            if order == 0:
                return 0.0, BELOW_LOT
        if abs(order) * price < self.min_notional:
            return 0.0, BELOW_MIN_NOTIONAL
        return order, reason

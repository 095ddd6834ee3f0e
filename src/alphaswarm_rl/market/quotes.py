"""What the market offers at a moment, and what was done with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from alphaswarm_rl.market.costs import CostRates

Numbers = Sequence[float]


@dataclass(frozen=True)
class Fill:
    """One executed order: cash fell by `quantity * price + cost`."""

    asset: int
    quantity: float
    price: float
    commission: float
    spread: float
    impact: float
    reason: str = "order"

    @property
    def cost(self) -> float:
        """What it cost beyond the value traded, in money."""
        return self.commission + self.spread + self.impact


@dataclass(frozen=True)
class Quotes:
    """The market at the moment of a fill.

    Attributes:
        prices: Where orders fill; for an asset that cannot trade, the last known price, at which its position counts.
        tradable: Which assets trade now; None: all. Without a positive price (or, with impact, volume) none does.
        volume: Units traded in the bar; needed by impact alone.
    """

    prices: Numbers
    tradable: Sequence[bool] | None = None
    volume: Numbers | None = None

    def trades(self, asset: int, rates: CostRates) -> bool:
        """Whether orders for the asset can be filled."""
        return bool(
            (self.tradable is None or self.tradable[asset])
            and self.prices[asset] > 0
            and (rates.impact == 0 or self.volume_of(asset) > 0)
        )

    def volume_of(self, asset: int) -> float:
        """The asset's volume, 0 where there is none."""
        return 0.0 if self.volume is None else self.volume[asset]

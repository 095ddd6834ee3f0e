"""Which holdings make given weights hold exactly after costs.

The equity after the trade, V', is what is left of the equity before, V, once the trades towards V' times the weights
are paid for:  V' + cost(V') = V.  Here it is found by bisection, which is slow and obviously right; the kernels use
Newton's method and are compared with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from alphaswarm_rl.market.costs import CostRates, fee
from alphaswarm_rl.market.margin import Margin
from alphaswarm_rl.market.quotes import Quotes

#: Part of the equity that stays in cash when all of it is to be invested, so that rounding cannot make cash negative.
SPARE_EQUITY = 1e-11
#: Trades below this part of the equity are not made: they are rounding, and might be charged a minimum commission.
DUST = 1e-14
#: A solution whose equity is off by more than this part of it is none.
TOLERANCE = 1e-10
_BISECTIONS = 100


def holdings_for(
    rates: CostRates,
    margin: Margin,
    cash: float,
    positions: Sequence[float],
    targets: Mapping[int, float],
    quotes: Quotes,
) -> dict[int, float]:
    """The new holdings of the assets that trade, by asset; empty when there is no trade that can be paid for.

    Args:
        rates: Costs.
        margin: Limits of the account.
        cash: Cash before.
        positions: Units before, of all assets.
        targets: Weights after, of the assets that may trade; the others keep their units.
        quotes: The market at the fill.
    """
    trade = _Rebalance(rates, margin, positions, targets, quotes, cash)
    equity = trade.equity
    if equity <= 0:
        return {}
    low, high = 0.0, equity
    if trade.cost(trade.holdings(equity)) == 0:
        low = equity
    for _ in range(_BISECTIONS):
        after = (low + high) / 2.0
        if after + trade.cost(trade.holdings(after)) > equity:
            high = after
        else:
            low = after
    holdings = trade.holdings(low)
    spent = trade.cost(holdings)
    if abs(equity - spent - low) > TOLERANCE * equity:
        return {}
    bought = sum((units - positions[asset]) * quotes.prices[asset] for asset, units in holdings.items())
    return holdings if cash - spent - bought >= 0 or margin.lends else {}


class _Rebalance:
    """One account before the trade: which holdings an equity after it means, and what getting there costs."""

    def __init__(
        self,
        rates: CostRates,
        margin: Margin,
        positions: Sequence[float],
        targets: Mapping[int, float],
        quotes: Quotes,
        cash: float,
    ) -> None:
        self._rates, self._margin, self._positions, self._quotes = rates, margin, positions, quotes
        self._weights = {asset: target if margin.short else max(target, 0.0) for asset, target in targets.items()}
        values = [units * price if units else 0.0 for units, price in zip(positions, quotes.prices, strict=True)]
        self.equity = cash + sum(values)
        self._fixed = sum(abs(value) for asset, value in enumerate(values) if asset not in self._weights)
        self._gross = sum(abs(weight) for weight in self._weights.values())

    def holdings(self, after: float) -> dict[int, float]:
        """The target holdings at an equity of `after`, without those that are held already."""
        base, prices = after, self._quotes.prices
        if self._gross > 0:
            most = (after * (1.0 - SPARE_EQUITY) / self._margin.initial - self._fixed) / self._gross
            base = max(0.0, min(after, most))
        units = {asset: weight * base / prices[asset] for asset, weight in self._weights.items()}
        dust = DUST * self.equity
        return {
            asset: target
            for asset, target in units.items()
            if abs(target - self._positions[asset]) * prices[asset] > dust
        }

    def cost(self, holdings: Mapping[int, float]) -> float:
        """What trading to these holdings costs."""
        return sum(
            fee(
                self._rates,
                units - self._positions[asset],
                self._quotes.prices[asset],
                self._quotes.volume_of(asset),
            ).total
            for asset, units in holdings.items()
        )

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
    prices = quotes.prices
    weights = {asset: target if margin.short else max(target, 0.0) for asset, target in targets.items()}
    values = [position * price if position else 0.0 for position, price in zip(positions, prices, strict=True)]
    equity = cash + sum(values)
    if equity <= 0:
        return {}
    fixed = sum(abs(value) for asset, value in enumerate(values) if asset not in weights)
    wanted = sum(abs(weight) for weight in weights.values())

    def holdings(after: float) -> dict[int, float]:
        """Targets at an equity of `after`, without those that are there already."""
        base = after
        if wanted > 0:
            base = max(0.0, min(after, (after * (1.0 - SPARE_EQUITY) / margin.initial - fixed) / wanted))
        goals = {asset: weight * base / prices[asset] for asset, weight in weights.items()}
        return {
            asset: goal for asset, goal in goals.items() if abs(goal - positions[asset]) * prices[asset] > DUST * equity
        }

    def cost(goals: Mapping[int, float]) -> float:
        return sum(
            fee(rates, goal - positions[asset], prices[asset], quotes.volume_of(asset)).total
            for asset, goal in goals.items()
        )

    low, high = 0.0, equity
    if cost(holdings(equity)) == 0:
        low = equity
    for _ in range(_BISECTIONS):
        after = (low + high) / 2.0
        if after + cost(holdings(after)) > equity:
            high = after
        else:
            low = after
    goals = holdings(low)
    spent = cost(goals)
    if abs(equity - spent - low) > TOLERANCE * equity:
        return {}
    left = cash - spent - sum((goal - positions[asset]) * prices[asset] for asset, goal in goals.items())
    return goals if left >= 0 or margin.lends else {}

"""Target weights and positions for N accounts at once, in torch; see `kernels_torch`."""

from __future__ import annotations

import torch
from torch import Tensor

from alphaswarm_rl.market.costs import CostRates
from alphaswarm_rl.market.kernels_torch import Market, Traded, fees, market_at, rate_of, values
from alphaswarm_rl.market.margin import Margin
from alphaswarm_rl.market.rebalance import DUST, SPARE_EQUITY, TOLERANCE

#: Newton steps of every account. Without impact the curve is made of straight lines, and few of them are crossed.
_STEPS = 4
_STEPS_WITH_IMPACT = 10


def trade_to_weights(
    cash: Tensor,
    positions: Tensor,
    targets: Tensor,
    time: Tensor,
    prices: Tensor,
    tradable: Tensor,
    volume: Tensor | None,
    rates: CostRates,
    margin: Margin,
) -> Traded:
    """`Book.trade_to_weights` for every account; `targets` (N, A) are weights after costs."""
    market = market_at(time, prices, tradable, volume, rates)
    return _rebalance(cash, positions, targets.double(), market.trades, market, rates, margin)


def trade_to_position(
    cash: Tensor,
    positions: Tensor,
    direction: Tensor,
    asset: Tensor,
    time: Tensor,
    prices: Tensor,
    tradable: Tensor,
    volume: Tensor | None,
    rates: CostRates,
    margin: Margin,
    *,
    size: float,
    by_units: bool,
) -> Traded:
    """`Book.trade_to_position` for account i in asset `asset[i]`; `size` is a fraction of the equity, or units."""
    market = market_at(time, prices, tradable, volume, rates)
    chosen = torch.arange(positions.shape[1], device=positions.device) == asset[:, None]
    wish = direction.double()[:, None] * size
    if by_units:
        return _to_units(cash, positions, wish, chosen & market.trades, market, rates, margin)
    moves = chosen & market.trades & (wish.sign() != positions.sign())
    return _rebalance(cash, positions, wish.expand_as(positions), moves, market, rates, margin)


def _rebalance(
    cash: Tensor, positions: Tensor, weights: Tensor, moves: Tensor, market: Market, rates: CostRates, margin: Margin
) -> Traded:
    weights = torch.where(moves, weights if margin.short else weights.clamp(min=0.0), 0.0)
    worth = values(positions, market.price)
    equity = cash + worth.sum(1)
    alive = equity > 0
    price = torch.where(moves, market.price, 1.0)
    fixed = torch.where(moves, 0.0, worth.abs()).sum(1)
    wanted = weights.abs().sum(1)
    some = torch.where(wanted > 0, wanted, 1.0)
    least = (DUST * equity)[:, None]

    def trades(after: Tensor) -> tuple[Tensor, Tensor]:
        bound = (after * (1.0 - SPARE_EQUITY) / margin.initial - fixed) / some
        bound = torch.where(wanted > 0, bound.clamp(min=0.0), after)
        goals = weights * torch.minimum(after, bound)[:, None] / price
        bends = torch.where(bound > 0, (1.0 - SPARE_EQUITY) / (margin.initial * some), 0.0)
        return goals, torch.where(bound < after, bends, 1.0)

    def moves_to(goals: Tensor) -> Tensor:
        change = torch.where(moves, goals - positions, 0.0)
        return torch.where(change.abs() * price > least, change, 0.0)

    low, high, after = torch.zeros_like(equity), equity, equity
    for _ in range(_STEPS if rates.impact == 0 else _STEPS_WITH_IMPACT):
        goals, base_slope = trades(after)
        change = moves_to(goals)
        gap = after + fees(rates, change, price, market.volume).sum(1) - equity
        steepness = _fee_slope(rates, change, price, market.volume) * weights * base_slope[:, None] / price
        slope = 1.0 + steepness.sum(1)
        low, high = torch.where(gap > 0, low, after), torch.where(gap > 0, after, high)
        nearer = after - gap / torch.where(slope > 0, slope, 1.0)
        inside = (slope > 0) & (low <= nearer) & (nearer <= high)
        after = torch.where(gap == 0, after, torch.where(inside, nearer, (low + high) / 2.0))
    goals, _ = trades(after)
    change = moves_to(goals)
    fee = fees(rates, change, price, market.volume)
    cost = fee.sum(1)
    left = cash - cost - (change * price).sum(1)
    done = alive & ((equity - cost - after).abs() <= TOLERANCE * equity)
    if not margin.lends:
        done = done & (left >= 0)
    change = torch.where(done[:, None], change, 0.0)
    moved = (change.abs() * price).sum(1)
    return Traded(
        torch.where(done, left, cash),
        torch.where(change != 0, goals, positions),
        torch.where(done, cost, 0.0),
        torch.where(alive, moved / torch.where(alive, equity, 1.0), 0.0),
        change,
    )


def _fee_slope(rates: CostRates, change: Tensor, price: Tensor, volume: Tensor) -> Tensor:
    """How the fee grows with the units held afterwards: positive where buying, negative where selling."""
    size = change.abs()
    per_unit = price * rate_of(rates, change) + rates.per_share
    slope = torch.where(size * per_unit > rates.minimum, per_unit, 0.0) + price * rates.half_spread
    if rates.impact > 0:
        slope = slope + 1.5 * price * rates.impact * (size / volume).sqrt()
    return slope * change.sign()


def _to_units(
    cash: Tensor, positions: Tensor, target: Tensor, moves: Tensor, market: Market, rates: CostRates, margin: Margin
) -> Traded:
    if not margin.short:
        target = target.clamp(min=0.0)
    worth = values(positions, market.price)
    equity = cash + worth.sum(1)
    price = torch.where(moves, market.price, 0.0)
    excess = torch.where(moves, 0.0, worth - margin.initial * worth.abs()).sum(1)
    turns = target * positions < 0
    goal = torch.where(moves, target, positions)
    opens = (moves & (turns | (target.abs() > positions.abs()))).any(1)
    change = goal - positions
    cost = fees(rates, change, price, market.volume).sum(1)
    left = cash - ((change * price).sum(1) + cost)
    free = left + (excess + (goal * price - margin.initial * (goal * price).abs()).sum(1))
    carried = torch.where(opens, free >= 0, (left >= 0) | margin.lends)

    # What cannot be carried is at least reduced to nothing, where it would have turned.
    fallback = torch.where(moves & turns, 0.0, positions)
    back = fallback - positions
    back_cost = fees(rates, back, price, market.volume).sum(1)
    back_left = cash - ((back * price).sum(1) + back_cost)
    reduced = (back_left >= 0) | margin.lends
    after = torch.where(carried[:, None], goal, torch.where(reduced[:, None], fallback, positions))
    traded = after - positions
    return Traded(
        torch.where(carried, left, torch.where(reduced, back_left, cash)),
        after,
        torch.where(carried, cost, torch.where(reduced, back_cost, 0.0)),
        torch.where(equity > 0, (traded.abs() * price).sum(1) / torch.where(equity > 0, equity, 1.0), 0.0),
        traded,
    )

"""Loops over accounts that trade to target weights and positions; `kernels_numba` says what they mean.

The equity after costs is found by Newton's method inside a bracket. Its function is the sum of the equity and of costs
that rise slowly with it, so a few steps reach the last bit; where impact bends it, the bracket keeps the steps inside.
Numba's cache does not notice when another file changes: of jitted code outside itself this file calls prefetches alone.
"""

from __future__ import annotations

import math

import numpy as np

from alphaswarm_rl.arrays.jit import AHEAD, njit, prange, prefetch_row
from alphaswarm_rl.market.costs import CostRates
from alphaswarm_rl.market.rebalance import DUST, SPARE_EQUITY, TOLERANCE

_ALL_BUT_SPARE = 1.0 - SPARE_EQUITY
_STEPS = 60
_SOLVED = 4e-15


@njit(cache=True)
def _rates(numbers):
    return CostRates(numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5], numbers[6], numbers[7])


@njit(cache=True)
def _fee(rates, rate, size, price, volume):
    value = size * price
    total = max(rates.minimum, value * rate + size * rates.per_share) + value * rates.half_spread
    if rates.impact > 0.0:
        total += value * (rates.impact * math.sqrt(size / volume))
    return total


@njit(cache=True)
def _goals(base, base_slope, weights, moves, price, volume, held, rates, least, goals):
    """Writes `weights * base`, units, to `goals`; returns the trades' cost and how it changes with the equity."""
    cost = 0.0
    slope = 0.0
    for j in range(weights.size):
        if not moves[j]:
            continue
        goal = weights[j] * base
        move = goal - held[j]
        size = abs(move)
        if size * price[j] <= least:
            goals[j] = held[j]
            continue
        goals[j] = goal
        rate = rates.buy_rate if move > 0.0 else rates.sell_rate
        cost += _fee(rates, rate, size, price[j], volume[j])
        steepness = price[j] * rates.half_spread
        if size * price[j] * rate + size * rates.per_share > rates.minimum:
            steepness += price[j] * rate + rates.per_share
        if rates.impact > 0.0:
            steepness += 1.5 * price[j] * rates.impact * math.sqrt(size / volume[j])
        slope += math.copysign(steepness, move) * weights[j] * base_slope
    return cost, slope


@njit(cache=True)
def _rebalance(money, held, weights, moves, price, volume, rates, initial, short, goals):
    """Writes the new holdings, or the old ones, to `goals`; returns money after, cost, value traded, equity.

    `weights` is turned from parts of the equity into units per unit of money: no division is left in the loop.
    """
    equity = money
    fixed = 0.0
    wanted = 0.0
    for j in range(held.size):
        goals[j] = held[j]
        worth = held[j] * price[j] if held[j] != 0.0 else 0.0
        equity += worth
        if moves[j]:
            wanted += abs(weights[j])
            weights[j] /= price[j]
        else:
            fixed += abs(worth)
    if not equity > 0.0:
        return money, 0.0, 0.0, equity
    low = 0.0
    high = equity
    after = equity
    least = DUST * equity
    cost = 0.0
    for _ in range(_STEPS):
        base = after
        base_slope = 1.0
        if wanted > 0.0:
            bound = (after * _ALL_BUT_SPARE / initial - fixed) / wanted
            if bound < after:
                base = max(bound, 0.0)
                base_slope = _ALL_BUT_SPARE / (initial * wanted) if bound > 0.0 else 0.0
        cost, slope = _goals(base, base_slope, weights, moves, price, volume, held, rates, least, goals)
        gap = after + cost - equity
        if abs(gap) <= _SOLVED * equity:
            break
        if gap > 0.0:
            high = after
        else:
            low = after
        nearer = after - gap / (1.0 + slope) if slope > -1.0 else low
        after = nearer if low < nearer < high else (low + high) / 2.0
    moved = 0.0
    left = money - cost
    for j in range(held.size):
        if goals[j] != held[j]:
            move = (goals[j] - held[j]) * price[j]
            left -= move
            moved += abs(move)
    if abs(equity - cost - after) > TOLERANCE * equity or (left < 0.0 and initial >= 1.0 and not short):
        for j in range(held.size):
            goals[j] = held[j]
        return money, 0.0, 0.0, equity
    return left, cost, moved, equity


@njit(cache=True)
def _to_units(money, held, a, target, price, volume, rates, initial, short, goals):
    """Writes the asset's new holding to `goals[a]`; returns as `_rebalance` does."""
    if not short:
        target = max(target, 0.0)
    equity = money
    excess = 0.0
    for j in range(held.size):
        if held[j] != 0.0:
            worth = held[j] * price[j]
            equity += worth
            if j != a:
                excess += worth - initial * abs(worth)
    goals[a] = held[a]
    turns = target * held[a] < 0.0
    for attempt in range(2):
        opens = attempt == 0 and (turns or abs(target) > abs(held[a]))
        goal = target if attempt == 0 else (0.0 if turns else held[a])
        move = goal - held[a]
        if move == 0.0:
            break
        fee = _fee(rates, rates.buy_rate if move > 0.0 else rates.sell_rate, abs(move), price[a], volume)
        left = money - (move * price[a] + fee)
        free = left + (excess + (goal * price[a] - initial * abs(goal * price[a])))
        if (opens and free >= 0.0) or (not opens and (left >= 0.0 or short or initial < 1.0)):
            goals[a] = goal
            return left, fee, abs(move * price[a]), equity
    return money, 0.0, 0.0, equity


@njit(cache=True)
def weights_rows(
    first,
    last,
    cash,
    positions,
    targets,
    time,
    prices,
    tradable,
    volume,
    numbers,
    initial,
    short,
    cost,
    turnover,
    traded,
):
    """Accounts `first` to `last` of `kernels_numba.trade_to_weights`."""
    rates = _rates(numbers)
    assets = positions.shape[1]
    weights, price, units, goals = np.empty(assets), np.empty(assets), np.ones(assets), np.empty(assets)
    moves = np.empty(assets, np.bool_)
    for i in range(first, last):
        if i + AHEAD < last:
            prefetch_row(prices, time[i + AHEAD])
            prefetch_row(tradable, time[i + AHEAD])
        t = time[i]
        for j in range(assets):
            price[j] = prices[t, j]
            if volume.size > 0:
                units[j] = volume[t, j]
            moves[j] = tradable[t, j] and price[j] > 0.0 and (rates.impact == 0.0 or units[j] > 0.0)
            weights[j] = targets[i, j] if short else max(targets[i, j], 0.0)
        held = positions[i]
        money, fees, moved, equity = _rebalance(
            cash[i], held, weights, moves, price, units, rates, initial, short, goals
        )
        for j in range(assets):
            traded[i, j] = goals[j] - held[j]
            held[j] = goals[j]
        cash[i] = money
        cost[i] = fees
        turnover[i] = moved / equity if equity > 0.0 else 0.0


@njit(cache=True, parallel=True)
def weights_chunks(chunks, count, *arguments):
    """All accounts, shared out over threads."""
    for chunk in prange(chunks):
        weights_rows(chunk * count // chunks, (chunk + 1) * count // chunks, *arguments)


@njit(cache=True)
def position_rows(
    first,
    last,
    cash,
    positions,
    direction,
    asset,
    time,
    prices,
    tradable,
    volume,
    numbers,
    initial,
    short,
    size,
    by_units,
    cost,
    turnover,
    traded,
):
    """Accounts `first` to `last` of `kernels_numba.trade_to_position`."""
    rates = _rates(numbers)
    assets = positions.shape[1]
    weights, price, units, goals = np.zeros(assets), np.empty(assets), np.ones(assets), np.empty(assets)
    moves = np.zeros(assets, np.bool_)
    for i in range(first, last):
        t = time[i]
        a = asset[i]
        cost[i] = 0.0
        turnover[i] = 0.0
        traded[i] = 0.0
        for j in range(assets):
            price[j] = prices[t, j]
        if volume.size > 0:
            units[a] = volume[t, a]
        if not (tradable[t, a] and price[a] > 0.0 and (rates.impact == 0.0 or units[a] > 0.0)):
            continue
        held = positions[i]
        wish = float(direction[i])
        if np.isnan(wish):
            continue
        if by_units:
            money, fees, moved, equity = _to_units(
                cash[i], held, a, wish * size, price, units[a], rates, initial, short, goals
            )
        elif (wish > 0.0) == (held[a] > 0.0) and (wish < 0.0) == (held[a] < 0.0):
            continue
        else:
            moves[a] = True
            weights[a] = wish * size if short else max(wish * size, 0.0)
            money, fees, moved, equity = _rebalance(
                cash[i], held, weights, moves, price, units, rates, initial, short, goals
            )
            moves[a] = False
        traded[i] = goals[a] - held[a]
        held[a] = goals[a]
        cash[i] = money
        cost[i] = fees
        turnover[i] = moved / equity if equity > 0.0 else 0.0


@njit(cache=True, parallel=True)
def position_chunks(chunks, count, *arguments):
    """All accounts, shared out over threads."""
    for chunk in prange(chunks):
        position_rows(chunk * count // chunks, (chunk + 1) * count // chunks, *arguments)

"""Loops over accounts that fill orders, close, adjust and mark; `kernels_numba` says what they mean.

Each takes accounts `first` to `last`; the forms with chunks share them out over threads. Numba's cache does not notice
when another file changes: of jitted code outside itself this file calls prefetches alone.
"""

from __future__ import annotations

import math

import numpy as np

from alphaswarm_rl.arrays.jit import AHEAD, njit, prange, prefetch_row
from alphaswarm_rl.market.costs import NEWTON_STEPS, SPARE_CASH, CostRates

_ALL_BUT_SPARE = 1.0 - SPARE_CASH


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
def _units(money, linear, cubic):
    if money <= 0.0:
        return 0.0
    if cubic == 0.0:
        return money / linear
    root = min(math.sqrt(money / linear), (money / cubic) ** (1.0 / 3.0))
    for _ in range(NEWTON_STEPS):
        square = root * root
        root -= (cubic * square * root + linear * square - money) / (3.0 * cubic * square + 2.0 * linear * root)
    return root * root


@njit(cache=True)
def _affordable(rates, cash, price, volume, whole):
    money = cash if whole else cash * _ALL_BUT_SPARE
    bare = price + price * rates.half_spread
    cubic = price * rates.impact / math.sqrt(volume) if rates.impact > 0.0 else 0.0
    units = _units(money, bare + price * rates.buy_rate + rates.per_share, cubic)
    if rates.minimum > 0.0:
        units = min(units, _units(money - rates.minimum, bare, cubic))
    if not whole:
        return units
    units = np.floor(units)
    more = units + 1.0
    if more * price + _fee(rates, rates.buy_rate, more, price, volume) <= cash:
        return more
    if units > 0.0 and units * price + _fee(rates, rates.buy_rate, units, price, volume) > cash:
        return units - 1.0
    return units


@njit(cache=True)
def _by_size(sizes, count, order, places):
    """Writes to `order` which of the first `count` sizes comes when: largest first, the earlier among equals.

    Each place is found by counting those before it. With so few that beats any sort: no branch is mispredicted.
    """
    for k in range(count):
        size = sizes[k]
        place = 0
        for other in range(k):
            after = int(sizes[other] < size)
            places[other] += after
            place += 1 - after
        places[k] = place
    for k in range(count):
        order[places[k]] = k


@njit(cache=True)
def _wishes(held_row, order_row, price_row, tradable_row, volume_row, rates, whole, out):
    """For each asset what is wanted before cash is looked at: units, their value and fee; and the value held.

    The four lie one after the other in `out`. Without a branch in it and with one array to write to, it becomes vector
    code: this is where the time goes.
    """
    assets = held_row.size
    for j in range(assets):
        price = float(price_row[j])
        held = held_row[j]
        out[3 * assets + j] = held * price if held != 0.0 else 0.0
        order = float(order_row[j])
        if whole:
            order = np.trunc(order)
        order = max(order, min(-held, 0.0))
        order = order if (tradable_row[j] and price > 0.0) else 0.0
        price = price if price > 0.0 else 0.0
        size = abs(order)
        value = size * price
        rate = rates.buy_rate if order > 0.0 else rates.sell_rate
        commission = max(rates.minimum, value * rate + size * rates.per_share)
        out[j] = order
        out[assets + j] = value
        out[2 * assets + j] = (commission if size > 0.0 else 0.0) + value * rates.half_spread
    if rates.impact > 0.0:
        for j in range(assets):
            units = float(volume_row[j])
            if units > 0.0:
                out[2 * assets + j] += out[assets + j] * (rates.impact * math.sqrt(abs(out[j]) / units))
            else:
                out[j] = 0.0
                out[assets + j] = 0.0
                out[2 * assets + j] = 0.0


@njit(cache=True)
def shares_rows(
    first, last, cash, positions, orders, time, prices, tradable, volume, numbers, whole, cost, turnover, traded
):
    """Accounts `first` to `last` of `kernels_numba.trade_shares`."""
    rates = _rates(numbers)
    assets = positions.shape[1]
    wished = np.empty(4 * assets)
    moves, values = wished[:assets], wished[assets : 2 * assets]
    fees, worths = wished[2 * assets : 3 * assets], wished[3 * assets :]
    buys, order, places = np.empty(assets, np.int64), np.empty(assets, np.int64), np.empty(assets, np.int64)
    sizes = np.empty(assets)
    for i in range(first, last):
        if i + AHEAD < last:
            prefetch_row(prices, time[i + AHEAD])
            prefetch_row(tradable, time[i + AHEAD])
        t = time[i]
        volumes = volume[t] if volume.size > 0 else worths
        _wishes(positions[i], orders[i], prices[t], tradable[t], volumes, rates, whole, wished)
        money = cash[i]
        equity = 0.0
        total = 0.0
        paid = 0.0
        moved = 0.0
        count = 0
        cheapest = np.inf
        for j in range(assets):
            equity += worths[j]
            buying = moves[j] > 0.0
            proceeds = values[j] - fees[j]
            selling = moves[j] < 0.0 and proceeds > 0.0
            money += proceeds if selling else 0.0
            paid += fees[j] if selling else 0.0
            moved += values[j] if selling else 0.0
            total += values[j] + fees[j] if buying else 0.0
            buys[count] = j
            sizes[count] = moves[j]
            count += buying
            sold = moves[j] if selling else 0.0
            traded[i, j] = sold
            positions[i, j] += sold
        equity += cash[i]
        if total <= money:
            money -= total
            for k in range(count):
                j = buys[k]
                positions[i, j] += moves[j]
                traded[i, j] = moves[j]
                moved += values[j]
                paid += fees[j]
        else:
            for k in range(count):
                cheapest = min(cheapest, float(prices[t, buys[k]]))
            _by_size(sizes, count, order, places)
            for k in range(count):
                # Nothing is left that could be bought: a unit costs at least its price.
                if whole and money < cheapest:
                    break
                j = buys[order[k]]
                bought = moves[j]
                value = values[j]
                fee = fees[j]
                if value + fee > money:
                    price = float(prices[t, j])
                    if whole and price > money:
                        continue
                    units = float(volume[t, j]) if volume.size > 0 else 1.0
                    bought = _affordable(rates, money, price, units, whole)
                    if bought == 0.0:
                        if whole:
                            continue
                        break
                    value = bought * price
                    fee = _fee(rates, rates.buy_rate, bought, price, units)
                money -= value + fee
                positions[i, j] += bought
                traded[i, j] = bought
                moved += value
                paid += fee
                if bought < moves[j] and not whole:
                    break
        cash[i] = money
        cost[i] = paid
        turnover[i] = moved / equity if equity > 0.0 else 0.0


@njit(cache=True, parallel=True)
def shares_chunks(chunks, count, *arguments):
    """All accounts, shared out over threads."""
    for chunk in prange(chunks):
        shares_rows(chunk * count // chunks, (chunk + 1) * count // chunks, *arguments)


@njit(cache=True)
def close_rows(first, last, cash, positions, rows, ends, time, prices, tradable, volume, numbers, cost, traded):
    """Accounts `first` to `last` of `kernels_numba.close_positions`."""
    rates = _rates(numbers)
    for i in range(first, last):
        t = time[i]
        cost[i] = 0.0
        for j in range(positions.shape[1]):
            held = positions[i, j]
            traded[i, j] = 0.0
            if held == 0.0:
                continue
            price = float(prices[t, j])
            units = float(volume[t, j]) if volume.size > 0 else 0.0
            trades = tradable[t, j] and price > 0.0 and (rates.impact == 0.0 or units > 0.0)
            if not (ends[t, j] or (rows[i] and trades)):
                continue
            worth = abs(held) * price
            rate = rates.buy_rate if held < 0.0 else rates.sell_rate
            fee = max(rates.minimum, worth * rate + abs(held) * rates.per_share) + worth * rates.half_spread
            if rates.impact > 0.0 and units > 0.0:
                fee += worth * (rates.impact * math.sqrt(abs(held) / units))
            fee = min(fee, worth)
            cash[i] += held * price - fee
            cost[i] += fee
            positions[i, j] = 0.0
            traded[i, j] = -held


@njit(cache=True, parallel=True)
def close_chunks(chunks, count, *arguments):
    """All accounts, shared out over threads."""
    for chunk in prange(chunks):
        close_rows(chunk * count // chunks, (chunk + 1) * count // chunks, *arguments)


@njit(cache=True)
def adjust_rows(first, last, cash, positions, time, dividends, splits):
    """Accounts `first` to `last` of `kernels_numba.adjust`."""
    for i in range(first, last):
        t = time[i]
        paid = 0.0
        for j in range(positions.shape[1]):
            if positions[i, j] == 0.0:
                continue
            if splits.size > 0:
                positions[i, j] *= splits[t, j]
            if dividends.size > 0:
                paid += positions[i, j] * dividends[t, j]
        cash[i] += paid


@njit(cache=True, parallel=True)
def adjust_chunks(chunks, count, *arguments):
    """All accounts, shared out over threads."""
    for chunk in prange(chunks):
        adjust_rows(chunk * count // chunks, (chunk + 1) * count // chunks, *arguments)


@njit(cache=True, fastmath={"reassoc"})
def _worth(held, marks):
    """Net and gross value of one account's positions; summed in whichever order is fastest, the same for all."""
    net = 0.0
    gross = 0.0
    for j in range(held.size):
        worth = held[j] * float(marks[j]) if held[j] != 0.0 else 0.0
        net += worth
        gross += abs(worth)
    return net, gross


@njit(cache=True)
def mark_rows(first, last, cash, positions, time, marks, numbers, maintenance, equity, carry, called):
    """Accounts `first` to `last` of `kernels_numba.mark`."""
    rates = _rates(numbers)
    for i in range(first, last):
        if i + AHEAD < last:
            prefetch_row(marks, time[i + AHEAD])
        net, gross = _worth(positions[i], marks[time[i]])
        paid = rates.borrow * ((gross - net) / 2.0 + max(-cash[i], 0.0)) + rates.funding * net
        cash[i] -= paid
        carry[i] = paid
        equity[i] = cash[i] + net
        called[i] = equity[i] < maintenance * gross


@njit(cache=True, parallel=True)
def mark_chunks(chunks, count, *arguments):
    """All accounts, shared out over threads."""
    for chunk in prange(chunks):
        mark_rows(chunk * count // chunks, (chunk + 1) * count // chunks, *arguments)

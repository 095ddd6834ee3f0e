"""The Book for N accounts at once, on the CPU: one fused loop per account, in float64.

Each kernel steps the accounts `first` to `last` of arrays (N,) and (N, A), which it changes in place; results are
written to arrays of the caller. What the market shows is (T, A), stored once; account i reads row `time[i]` of it. No
account's numbers depend on another's, so an account alone and in a batch of thousands agree bit for bit.

Every formula and order of additions is that of `book.py`, except that target weights are solved by Newton's method
inside a bracket: the equity after costs plus the costs, which rise slowly with it, must be the equity before, so a few
steps reach the last bit; where impact bends the curve, the bracket keeps the steps inside. Arguments that all share:

    cash       (N,)   money
    positions  (N, A) units, negative when short
    time       (N,)   integers: the row of the fill, of the mark, or of the corporate action
    prices     (T, A) money per unit; where an asset cannot trade, its last known price
    tradable   (T, A) booleans
    volume     (T, A) units per bar, or an empty array when there is no impact
    numbers    (8,)   `CostModel.rates(...)` as an array
    initial, short    the account's `Margin`
    cost       (N,)   out: commission, spread and impact in money
    turnover   (N,)   out: value traded in risky assets over the equity before the trade
    traded     out: units bought, negative when sold

Numba's cache does not notice when another file changes: of jitted code outside itself this file calls prefetches alone.
"""

from __future__ import annotations

import math

import numpy as np

from alphaswarm_rl.arrays.jit import AHEAD, njit, prefetch_row
from alphaswarm_rl.market import sizing_rules
from alphaswarm_rl.market.costs import NEWTON_STEPS, SPARE_CASH, CostRates
from alphaswarm_rl.market.rebalance import DUST, SPARE_EQUITY, TOLERANCE

_ALL_BUT_SPARE_CASH = 1.0 - SPARE_CASH
_ALL_BUT_SPARE_EQUITY = 1.0 - SPARE_EQUITY
#: Newton steps of target weights at the most, and the part of the equity that counts as solved.
_STEPS = 60
_SOLVED = 4e-15


@njit(cache=True)
def adjust(first, last, cash, positions, time, dividends, splits):
    """`Book.adjust`. `dividends` (T, A) are money per unit after `splits` (T, A), which are new units per old one."""
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


@njit(cache=True)
def trade_shares(
    first, last, cash, positions, orders, time, prices, tradable, volume, numbers, whole, cost, turnover, traded
):
    """`Book.trade_shares`. `orders` (N, A) are units to buy, negative to sell; `traded` is (N, A)."""
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


@njit(cache=True)
def _wishes(held_row, order_row, price_row, tradable_row, volume_row, rates, whole, out):
    """For each asset the order before cash is looked at: units, their value and fee; and the value held.

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
        fee = _fee_without_impact(rates, rate, size, price)
        out[j] = order
        out[assets + j] = value
        out[2 * assets + j] = fee if size > 0.0 else 0.0
    if rates.impact > 0.0:
        for j in range(assets):
            units = float(volume_row[j])
            if units > 0.0:
                out[2 * assets + j] += _impact(rates, abs(out[j]), out[assets + j], units)
            else:
                out[j] = 0.0
                out[assets + j] = 0.0
                out[2 * assets + j] = 0.0


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
def _affordable(rates, cash, price, volume, whole):
    money = cash if whole else cash * _ALL_BUT_SPARE_CASH
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
def trade_to_weights(
    first, last, cash, positions, targets, time, prices, tradable, volume, numbers, initial, short, cost, turnover,
    traded,
):  # fmt: skip
    """`Book.trade_to_weights`. `targets` (N, A) are weights after costs; `traded` is (N, A)."""
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


@njit(cache=True)
def trade_units(
    first, last, cash, positions, orders, time, prices, tradable, volume, numbers, initial, short, lot, cost, turnover,
    traded,
):  # fmt: skip
    """`Book.trade_units`. `orders` (N, A) are units to buy, negative to sell; `traded` is (N, A)."""
    rates = _rates(numbers)
    assets = positions.shape[1]
    price, units, moves = np.empty(assets), np.ones(assets), np.empty(assets, np.bool_)
    sizes, places = np.empty(5 * assets), np.empty(3 * assets, np.int64)
    for i in range(first, last):
        if i + AHEAD < last:
            prefetch_row(prices, time[i + AHEAD])
            prefetch_row(tradable, time[i + AHEAD])
        _quote(time[i], prices, tradable, volume, rates, price, units, moves)
        equity = cash[i] + _net(positions[i], price)
        money, fees, moved = _fill_units(
            cash[i], positions[i], orders[i], price, moves, units, rates, initial, short, lot, sizes, places, traded[i]
        )
        for j in range(assets):
            positions[i, j] += traded[i, j]
        cash[i] = money
        cost[i] = fees
        turnover[i] = moved / equity if equity > 0.0 else 0.0


@njit(cache=True)
def size_orders(
    first, last, cash, positions, weights, time, prices, tradable, volume, numbers, initial, short, threshold, lot,
    least, most, orders, reasons,
):  # fmt: skip
    """`Book.size_orders`: `orders` (N, A) of `weights` (N, A), and `reasons` (N, A) int8 why one is less.

    `time` (N,) is the row of the decision; `threshold`, `lot`, `least` and `most` are those of the `SizingRules`. The
    accounts are not changed.
    """
    rates = _rates(numbers)
    assets = positions.shape[1]
    price, units, moves = np.empty(assets), np.ones(assets), np.empty(assets, np.bool_)
    sizes, places, by_rules = np.empty(5 * assets), np.empty(3 * assets, np.int64), np.empty(assets)
    for i in range(first, last):
        _quote(time[i], prices, tradable, volume, rates, price, units, moves)
        held = positions[i]
        equity = cash[i] + _net(held, price)
        for j in range(assets):
            weight = weights[i, j] if short else max(weights[i, j], 0.0)
            by_rules[j] = 0.0
            reasons[i, j] = sizing_rules.NOTHING
            if weight == 0.0 and held[j] == 0.0:
                continue
            if not equity > 0.0:
                reasons[i, j] = sizing_rules.NO_EQUITY
            elif not moves[j]:
                reasons[i, j] = sizing_rules.NOT_TRADABLE
            else:
                by_rules[j], reasons[i, j] = _order_by_rules(
                    weight, held[j], equity, price[j], threshold, lot, least, most
                )
        _fill_units(cash[i], held, by_rules, price, moves, units, rates, initial, short, lot, sizes, places, orders[i])
        for j in range(assets):
            order = orders[i, j]
            if order != by_rules[j]:
                unmade = by_rules[j] < 0.0 and held[j] > 0.0 and not short and initial >= 1.0
                reasons[i, j] = sizing_rules.COSTS if unmade else sizing_rules.BUYING_POWER
            if order != 0.0 and abs(order) * price[j] < least:
                orders[i, j] = 0.0
                reasons[i, j] = sizing_rules.BUYING_POWER


@njit(cache=True)
def _quote(t, prices, tradable, volume, rates, price, units, moves):
    """Writes the row's prices, volumes where there is impact, and which assets trade."""
    for j in range(price.size):
        price[j] = prices[t, j]
        if volume.size > 0:
            units[j] = volume[t, j]
        moves[j] = tradable[t, j] and price[j] > 0.0 and (rates.impact == 0.0 or units[j] > 0.0)


@njit(cache=True)
def _net(held, price):
    """The value of all positions, added up in the Book's order."""
    net = 0.0
    for j in range(held.size):
        net += held[j] * price[j] if held[j] != 0.0 else 0.0
    return net


@njit(cache=True)
def _order_by_rules(weight, held, equity, price, threshold, lot, least, most):
    """`SizingRules.order`."""
    exits = weight == 0.0
    order = -held if exits else weight * equity / price - held
    if abs(order) * price <= DUST * equity:
        return 0.0, sizing_rules.NOTHING
    if not exits and abs(order) * price < threshold * equity:
        return 0.0, sizing_rules.BELOW_THRESHOLD
    reason = sizing_rules.NOTHING
    if abs(order) * price > most:
        order = math.copysign(most / price, order)
        reason = sizing_rules.LARGEST_ORDER
        exits = False
    if lot > 0.0 and not exits:
        order = np.trunc(order / lot) * lot
        if order == 0.0:
            return 0.0, sizing_rules.BELOW_LOT
    if abs(order) * price < least:
        return 0.0, sizing_rules.BELOW_MIN_NOTIONAL
    return order, reason


@njit(cache=True)
def _fill_units(money, held, orders, price, moves, volume, rates, initial, short, lot, numbers, indices, traded):
    """Writes the units that are filled to `traded`; returns money after, cost and value traded.

    `numbers` (5 A) and `indices` (3 A) are room to work in.
    """
    assets = held.size
    values, sizes, backs = numbers[:assets], numbers[assets : 2 * assets], numbers[2 * assets : 3 * assets]
    paid, beyonds = numbers[3 * assets : 4 * assets], numbers[4 * assets : 5 * assets]
    opening, order, places = indices[:assets], indices[assets : 2 * assets], indices[2 * assets :]
    lends = short or initial < 1.0
    free = money
    for j in range(assets):
        if held[j] != 0.0:
            worth = held[j] * price[j]
            free += worth - initial * abs(worth)
    cost = 0.0
    moved = 0.0
    count = 0
    for j in range(assets):
        traded[j] = 0.0
        if orders[j] == 0.0 or not moves[j]:
            continue
        size = abs(orders[j])
        buying = orders[j] > 0.0
        back = min(size, abs(held[j])) if held[j] != 0.0 and buying == (held[j] < 0.0) else 0.0
        beyond = size - back if buying or short else 0.0
        fee = 0.0
        if back > 0.0:
            value = back * price[j]
            fee = _fee(rates, rates.buy_rate if buying else rates.sell_rate, back, price[j], volume[j])
            freed = initial * value - fee
            if freed > 0.0 or lends:
                free += freed
                money += (-value if buying else value) - fee
                traded[j] = math.copysign(back, orders[j])
                cost += fee
                moved += value
        if beyond > 0.0:
            opening[count] = j
            values[count] = beyond * price[j]
            sizes[count] = size
            backs[count] = back
            paid[count] = fee
            beyonds[count] = beyond
            count += 1
    _by_size(values, count, order, places)
    for k in range(count):
        o = order[k]
        j = opening[o]
        rate = rates.buy_rate if orders[j] > 0.0 else rates.sell_rate
        beyond = beyonds[o]
        move = orders[j]
        added = _fee(rates, rate, sizes[o], price[j], volume[j]) - paid[o]
        needed = initial * (beyond * price[j]) + added
        cut = needed > free
        if cut:
            beyond = _carried(rates, rate, free, price[j], volume[j], backs[o], paid[o], initial, lot)
            if beyond > 0.0:
                move = math.copysign(backs[o] + beyond, move)
                added = _fee(rates, rate, backs[o] + beyond, price[j], volume[j]) - paid[o]
                needed = initial * (beyond * price[j]) + added
        if beyond > 0.0:
            free -= needed
            money -= math.copysign(beyond * price[j], move) + added
            traded[j] = move
            cost += added
            moved += beyond * price[j]
        if cut and lot == 0.0:
            break
    return money, cost, moved


@njit(cache=True)
def _carried(rates, rate, free, price, volume, base, paid, initial, lot):
    """`costs.carried`; `paid` is the fee of the `base` units that closed a position."""
    money = (free if lot > 0.0 else free * _ALL_BUT_SPARE_CASH) + (initial * (base * price) + paid)
    bare = price * initial + price * rates.half_spread
    cubic = price * rates.impact / math.sqrt(volume) if rates.impact > 0.0 else 0.0
    units = min(_units(money, bare + price * rate + rates.per_share, cubic), _units(money - rates.minimum, bare, cubic))
    units = max(units - base, 0.0)
    if lot == 0.0:
        return units
    count = np.floor(units / lot)
    if _needed(rates, rate, count + 1.0, price, volume, base, paid, initial, lot) <= free:
        count += 1.0
    elif count > 0.0 and _needed(rates, rate, count, price, volume, base, paid, initial, lot) > free:
        count -= 1.0
    return count * lot


@njit(cache=True)
def _needed(rates, rate, count, price, volume, base, paid, initial, lot):
    """Initial margin and costs of so many lots beyond `base`."""
    size = count * lot
    return initial * (size * price) + (_fee(rates, rate, base + size, price, volume) - paid)


@njit(cache=True)
def trade_to_position(
    first, last, cash, positions, direction, asset, time, prices, tradable, volume, numbers, initial, short, size,
    by_units, cost, turnover, traded,
):  # fmt: skip
    """`Book.trade_to_position` for account i in asset `asset[i]`.

    `direction` (N,) is -1, 0 or 1, or NaN, which leaves the position as it is; `size` is the fraction of the equity, or
    units with `by_units`; `traded` is (N,).
    """
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


@njit(cache=True)
def _rebalance(money, held, weights, moves, price, volume, rates, initial, short, goals):
    """Writes the new holdings, or the old ones, to `goals`; returns money after, cost, value traded, equity.

    `weights` is turned from parts of the equity into units per unit of money: no division is left in the loop.
    """
    equity = money
    fixed = 0.0
    weighed = 0.0
    for j in range(held.size):
        goals[j] = held[j]
        worth = held[j] * price[j] if held[j] != 0.0 else 0.0
        equity += worth
        if moves[j]:
            weighed += abs(weights[j])
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
        if weighed > 0.0:
            bound = (after * _ALL_BUT_SPARE_EQUITY / initial - fixed) / weighed
            if bound < after:
                base = max(bound, 0.0)
                base_slope = _ALL_BUT_SPARE_EQUITY / (initial * weighed) if bound > 0.0 else 0.0
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
def close_positions(first, last, cash, positions, rows, ends, time, prices, tradable, volume, numbers, cost, traded):
    """`Book.close` for assets that end, `Book.liquidate` for accounts that are called.

    `ends` (T, A) says which assets are closed at this row's price, tradable or not; `rows` (N,) which accounts lose
    every position that can trade; `traded` is (N, A).
    """
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
            # A bar without volume has no impact.
            fee = min(_fee(rates, rate, abs(held), price, units if units > 0.0 else np.inf), worth)
            cash[i] += held * price - fee
            cost[i] += fee
            positions[i, j] = 0.0
            traded[i, j] = -held


@njit(cache=True)
def mark(first, last, cash, positions, time, marks, numbers, maintenance, equity, carry, called):
    """`Book.accrue`, `Book.equity` and `Book.called` at the bar's close.

    Writes the equity (N,) after one bar's borrow and funding, these as `carry` (N,) in money, and whether the equity is
    below the maintenance margin, `called` (N,).
    """
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
def _rates(numbers):
    """The cost rates by name; threads and caches take arrays more readily than tuples."""
    return CostRates(numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5], numbers[6], numbers[7])


@njit(cache=True)
def _fee(rates, rate, size, price, volume):
    """`costs.fee` of more than nothing: commission, spread and impact in money."""
    total = _fee_without_impact(rates, rate, size, price)
    if rates.impact > 0.0:
        total += _impact(rates, size, size * price, volume)
    return total


@njit(cache=True)
def _fee_without_impact(rates, rate, size, price):
    value = size * price
    return max(rates.minimum, value * rate + size * rates.per_share) + value * rates.half_spread


@njit(cache=True)
def _impact(rates, size, value, volume):
    return value * (rates.impact * math.sqrt(size / volume))

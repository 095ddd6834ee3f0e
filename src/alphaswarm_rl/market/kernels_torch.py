"""The Book for N accounts at once, in torch: what runs on a GPU.

The same meaning as `kernels_numba`, whose shapes and units these share, with two differences: nothing is changed in
place, every function returns new tensors; and nothing waits for the device, as no Python branch looks at a tensor's
values, so that `torch.compile` makes a few kernels of each. Accounting is float64.

Accounts are cash (N,) and positions (N, A); `MarketRows` says what they trade at. Money that decides on whole shares is
added column by column, in the Book's order, and never by a tree reduction: share counts are then the Book's, exactly.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from alphaswarm_rl.market import sizing_rules
from alphaswarm_rl.market.costs import NEWTON_STEPS, SPARE_CASH, CostRates
from alphaswarm_rl.market.margin import Margin
from alphaswarm_rl.market.rebalance import DUST, SPARE_EQUITY, TOLERANCE
from alphaswarm_rl.market.sizing_rules import SizingRules

#: Newton steps of target weights. Without impact the curve is made of straight lines, and few of them are crossed.
_STEPS = 4
_STEPS_WITH_IMPACT = 10


class MarketRows(NamedTuple):
    """The market's tables (T, A), and the row `time[i]` at which account i trades.

    Attributes:
        time: Rows, (N,) int64.
        prices: Money per unit.
        tradable: Booleans.
        volume: Units per bar; None when there is no impact.
    """

    time: Tensor
    prices: Tensor
    tradable: Tensor
    volume: Tensor | None


class Quote(NamedTuple):
    """The market as each account sees it, (N, A): price, volume and whether it trades."""

    price: Tensor
    volume: Tensor
    trades: Tensor


class Traded(NamedTuple):
    """Accounts after a trade, and what it did: cost in money, turnover over the equity before, units per asset."""

    cash: Tensor
    positions: Tensor
    cost: Tensor
    turnover: Tensor
    traded: Tensor


class Marked(NamedTuple):
    """Accounts at a bar's close: cash after carry, equity, carry in money, and who is below maintenance margin."""

    cash: Tensor
    equity: Tensor
    carry: Tensor
    called: Tensor


class TorchTrader:
    """Trades and marks for one cost model and margin, in plain torch; `kernels_triton` has one for GPUs.

    A trade may mark at the same rows of `marks` (T, A), where these are given, or leave it, as this one does.

    Args:
        rates: What trading costs.
        margin: What may be owed.
    """

    def __init__(self, rates: CostRates, margin: Margin) -> None:
        self._rates, self._margin = rates, margin

    def trade_shares(
        self, cash: Tensor, positions: Tensor, orders: Tensor, rows: MarketRows, marks: Tensor | None, *, whole: bool
    ) -> tuple[Traded, Marked | None]:
        """Fills orders in units."""
        return trade_shares(cash, positions, orders, rows, self._rates, whole=whole), None

    def trade_to_weights(
        self, cash: Tensor, positions: Tensor, targets: Tensor, rows: MarketRows, marks: Tensor | None
    ) -> tuple[Traded, Marked | None]:
        """Trades to target weights."""
        return trade_to_weights(cash, positions, targets, rows, self._rates, self._margin), None

    def trade_units(self, cash: Tensor, positions: Tensor, orders: Tensor, rows: MarketRows, *, lot: float) -> Traded:
        """Fills orders in units that were made of weights."""
        return trade_units(cash, positions, orders, rows, self._rates, self._margin, lot=lot)

    def mark(self, cash: Tensor, positions: Tensor, time: Tensor, marks: Tensor) -> Marked:
        """One bar's borrow and funding, then the equity at these marks, and who is below the maintenance margin."""
        return mark(cash, positions, time, marks, self._rates, self._margin)


def trade_shares(
    cash: Tensor, positions: Tensor, orders: Tensor, rows: MarketRows, rates: CostRates, *, whole: bool
) -> Traded:
    """`Book.trade_shares` for every account; `orders` (N, A) are units to buy, negative to sell."""
    quote = quote_at(rows, rates)
    equity = cash + _add_up(values(positions, quote.price))
    price = torch.where(quote.trades, quote.price, 0.0)
    change = orders.double().trunc() if whole else orders.double()
    change = torch.where(quote.trades, torch.maximum(change, (-positions).clamp(max=0.0)), 0.0)
    worth = change.abs() * price
    fee = fees(rates, change, price, quote.volume)
    selling = (change < 0) & (worth > fee)
    buying = change > 0
    money = _add_up(torch.where(selling, worth - fee, 0.0), start=cash)
    total = _add_up(torch.where(buying, worth + fee, 0.0))
    everything = total <= money

    size, order = torch.sort(torch.where(buying, change, 0.0), dim=1, descending=True, stable=True)
    bought, left = _buy_in_turn(rates, money, size, price.gather(1, order), quote.volume.gather(1, order), whole=whole)
    bought = torch.zeros_like(bought).scatter(1, order, bought)
    bought = torch.where(everything[:, None], torch.where(buying, change, 0.0), bought)
    traded = torch.where(selling, change, bought)
    cost = fees(rates, traded, price, quote.volume).sum(1)
    moved = (traded.abs() * price).sum(1)
    return Traded(torch.where(everything, money - total, left), positions + traded, cost, _ratio(moved, equity), traded)


def _buy_in_turn(
    rates: CostRates, money: Tensor, size: Tensor, price: Tensor, volume: Tensor, *, whole: bool
) -> tuple[Tensor, Tensor]:
    """Fills buys from the left, each as far as the money reaches; returns units (N, A) and the money left."""
    charge = size * price + fees(rates, size, price, volume)
    bought = []
    cut = torch.zeros_like(money, dtype=torch.bool)
    for column in range(size.shape[1]):
        wish, at, units = size[:, column], price[:, column], volume[:, column]
        fits = charge[:, column] <= money
        number = torch.where(fits, wish, affordable(rates, money, at, units, whole=whole))
        if not whole:
            number = torch.where(cut, 0.0, number)
            cut = cut | ~fits
        number = torch.where(wish > 0, number, 0.0)
        money = money - (number * at + fees(rates, number, at, units))
        bought.append(number)
    return torch.stack(bought, dim=1), money


def affordable(rates: CostRates, cash: Tensor, price: Tensor, volume: Tensor, *, whole: bool) -> Tensor:
    """The most units that `cash` pays for, costs included; see `costs.affordable`."""
    money = cash if whole else cash * (1.0 - SPARE_CASH)
    price = torch.where(price > 0, price, 1.0)
    bare = price + price * rates.half_spread
    cubic = price * rates.impact / volume.sqrt() if rates.impact > 0 else None
    units = _units(money, bare + price * rates.buy_rate + rates.per_share, cubic)
    if rates.minimum > 0:
        units = torch.minimum(units, _units(money - rates.minimum, bare, cubic))
    if not whole:
        return units
    units = units.floor()
    more = units + 1.0
    one_more = more * price + fees(rates, more, price, volume) <= cash
    too_many = (units > 0) & (units * price + fees(rates, units, price, volume) > cash)
    return torch.where(one_more, more, torch.where(too_many, units - 1.0, units))


def _units(money: Tensor, linear: Tensor, cubic: Tensor | None) -> Tensor:
    money = money.clamp(min=0.0)
    if cubic is None:
        return money / linear
    root = torch.minimum((money / linear).sqrt(), (money / cubic) ** (1.0 / 3.0))
    for _ in range(NEWTON_STEPS):
        square = root * root
        step = (cubic * square * root + linear * square - money) / (3.0 * cubic * square + 2.0 * linear * root)
        root = torch.where(money > 0, root - step, 0.0)
    return root * root


def trade_units(
    cash: Tensor, positions: Tensor, orders: Tensor, rows: MarketRows, rates: CostRates, margin: Margin, *, lot: float
) -> Traded:
    """`Book.trade_units` for every account; `orders` (N, A) are units to buy, negative to sell."""
    return _fill_units(cash, positions, orders.double(), quote_at(rows, rates), rates, margin, lot)


def size_orders(
    cash: Tensor,
    positions: Tensor,
    weights: Tensor,
    rows: MarketRows,
    rates: CostRates,
    margin: Margin,
    rules: SizingRules,
) -> tuple[Tensor, Tensor]:
    """`Book.size_orders` for every account: orders (N, A), and why one is less, (N, A) int8."""
    quote = quote_at(rows, rates)
    weight = weights.double() if margin.short else weights.double().clamp(min=0.0)
    equity = (cash + _add_up(values(positions, quote.price)))[:, None]
    alive = equity > 0
    price = torch.where(quote.trades, quote.price, 1.0)
    by_rules, reasons = _orders_by_rules(weight, positions, torch.where(alive, equity, 1.0), price, rules)
    unmet = (weight != 0) | (positions != 0)
    for broken, reason in ((~quote.trades, sizing_rules.NOT_TRADABLE), (~alive, sizing_rules.NO_EQUITY)):
        by_rules = torch.where(broken, 0.0, by_rules)
        reasons = torch.where(broken, torch.where(unmet, reason, sizing_rules.NOTHING), reasons)
    orders = _fill_units(cash, positions, by_rules, quote, rates, margin, rules.lot).traded
    unmade = (by_rules < 0) & (positions > 0) & (not margin.lends)
    reasons = torch.where(
        orders != by_rules, torch.where(unmade, sizing_rules.COSTS, sizing_rules.BUYING_POWER), reasons
    )
    small = (orders != 0) & (orders.abs() * price < rules.min_notional)
    orders, reasons = torch.where(small, 0.0, orders), torch.where(small, sizing_rules.BUYING_POWER, reasons)
    return orders, reasons.to(torch.int8)


def _orders_by_rules(
    weight: Tensor, held: Tensor, equity: Tensor, price: Tensor, rules: SizingRules
) -> tuple[Tensor, Tensor]:
    """`SizingRules.order`; the last rule that an order breaks is written first."""
    exits = weight == 0
    order = torch.where(exits, -held, weight * equity / price - held)
    small = ~exits & (order.abs() * price < rules.rebalance_threshold * equity)
    dust = order.abs() * price <= DUST * equity
    reasons = torch.full_like(order, sizing_rules.NOTHING, dtype=torch.int64)
    if rules.max_order_notional is not None:
        large = order.abs() * price > rules.most
        # Divided by a tensor: numbers are multiplied by a reciprocal, which rounds twice.
        most = torch.full_like(price, rules.most) / price
        order = torch.where(large, torch.where(order < 0, -most, most), order)
        reasons, exits = torch.where(large, sizing_rules.LARGEST_ORDER, reasons), exits & ~large
    kept = order
    if rules.lot > 0:
        kept = torch.where(exits, order, (order / torch.full_like(order, rules.lot)).trunc() * rules.lot)
    reasons = torch.where(kept.abs() * price < rules.min_notional, sizing_rules.BELOW_MIN_NOTIONAL, reasons)
    reasons = torch.where(kept == 0, sizing_rules.BELOW_LOT, reasons)
    reasons = torch.where(small, sizing_rules.BELOW_THRESHOLD, reasons)
    reasons = torch.where(dust, sizing_rules.NOTHING, reasons)
    ordered = ~dust & ((reasons == sizing_rules.NOTHING) | (reasons == sizing_rules.LARGEST_ORDER))
    return torch.where(ordered, kept, 0.0), reasons


def _fill_units(
    cash: Tensor, positions: Tensor, orders: Tensor, quote: Quote, rates: CostRates, margin: Margin, lot: float
) -> Traded:
    worth = values(positions, quote.price)
    equity = cash + _add_up(worth)
    price = torch.where(quote.trades, quote.price, 0.0)
    order = torch.where(quote.trades, orders, 0.0)
    size, sign = order.abs(), order.sign()
    against = (positions != 0) & ((order > 0) == (positions < 0))
    back = torch.where(against, torch.minimum(size, positions.abs()), 0.0)
    beyond = size - back
    if not margin.short:
        beyond = torch.where(order > 0, beyond, 0.0)
    value, paid = back * price, fees(rates, sign * back, price, quote.volume)
    freed = margin.initial * value - paid
    made = (back > 0) & ((freed > 0) | margin.lends)
    free = _add_up(worth - margin.initial * worth.abs(), start=cash)
    free = _add_up(torch.where(made, freed, 0.0), start=free)
    money = _add_up(torch.where(made, -sign * value - paid, 0.0), start=cash)

    ranked = torch.sort(beyond * price, dim=1, descending=True, stable=True).indices
    columns = [part.gather(1, ranked) for part in (order, beyond, back, paid, price, quote.volume)]
    moved, money = _open_in_turn(rates, margin.initial, free, money, columns, lot=lot)
    moved = torch.zeros_like(moved).scatter(1, ranked, moved)
    traded = torch.where(moved != 0, moved, torch.where(made, sign * back, 0.0))
    cost = fees(rates, traded, price, quote.volume).sum(1)
    moved_value = (traded.abs() * price).sum(1)
    return Traded(money, positions + traded, cost, _ratio(moved_value, equity), traded)


def _open_in_turn(
    rates: CostRates, initial: float, free: Tensor, money: Tensor, columns: list[Tensor], *, lot: float
) -> tuple[Tensor, Tensor]:
    """Fills what opens positions from the left, each as far as `free` reaches; returns the orders' units and cash."""
    filled = []
    cut = torch.zeros_like(money, dtype=torch.bool)
    for order, beyond, back, paid, price, volume in zip(*(part.unbind(1) for part in columns), strict=True):
        sign = order.sign()
        needed = initial * (beyond * price) + (fees(rates, order, price, volume) - paid)
        fits = needed <= free
        more = carried(rates, free, price, volume, sign, back, paid, initial, lot=lot)
        units = torch.where(fits, beyond, more)
        if lot == 0:
            units = torch.where(cut, 0.0, units)
            cut = cut | ((beyond > 0) & ~fits)
        opens = (beyond > 0) & (units > 0)
        units = torch.where(opens, units, 0.0)
        move = torch.where(opens, torch.where(fits, order, sign * (back + units)), 0.0)
        added = torch.where(opens, fees(rates, move, price, volume) - paid, 0.0)
        free = free - (initial * (units * price) + added)
        money = money - (sign * (units * price) + added)
        filled.append(move)
    return torch.stack(filled, dim=1), money


def carried(
    rates: CostRates,
    free: Tensor,
    price: Tensor,
    volume: Tensor,
    sign: Tensor,
    base: Tensor,
    paid: Tensor,
    initial: float,
    *,
    lot: float,
) -> Tensor:
    """The most units beyond `base`, whose fee is `paid`, that `free` carries; see `costs.carried`."""
    price = torch.where(price > 0, price, 1.0)
    money = (free if lot > 0 else free * (1.0 - SPARE_CASH)) + (initial * (base * price) + paid)
    bare = price * initial + price * rates.half_spread
    cubic = price * rates.impact / volume.sqrt() if rates.impact > 0 else None
    units = _units(money, bare + price * rate_of(rates, sign) + rates.per_share, cubic)
    if rates.minimum > 0:
        units = torch.minimum(units, _units(money - rates.minimum, bare, cubic))
    units = (units - base).clamp(min=0.0)
    if lot == 0:
        return units

    def needed(count: Tensor) -> Tensor:
        size = count * lot
        return initial * (size * price) + (fees(rates, sign * (base + size), price, volume) - paid)

    count = (units / torch.full_like(units, lot)).floor()
    more = needed(count + 1.0) <= free
    less = (count > 0) & (needed(count) > free)
    return torch.where(more, count + 1.0, torch.where(less, count - 1.0, count)) * lot


def trade_to_weights(
    cash: Tensor,
    positions: Tensor,
    targets: Tensor,
    rows: MarketRows,
    rates: CostRates,
    margin: Margin,
) -> Traded:
    """`Book.trade_to_weights` for every account; `targets` (N, A) are weights after costs."""
    quote = quote_at(rows, rates)
    return _rebalance(cash, positions, targets.double(), quote.trades, quote, rates, margin)


def trade_to_position(
    cash: Tensor,
    positions: Tensor,
    direction: Tensor,
    asset: Tensor,
    rows: MarketRows,
    rates: CostRates,
    margin: Margin,
    *,
    size: float,
    by_units: bool,
) -> Traded:
    """`Book.trade_to_position` for account i in asset `asset[i]`; `size` is a fraction of the equity, or units."""
    quote = quote_at(rows, rates)
    chosen = torch.arange(positions.shape[1], device=positions.device) == asset[:, None]
    wish = direction.double()[:, None] * size
    if by_units:
        return _to_units(cash, positions, wish, chosen & quote.trades, quote, rates, margin)
    moves = chosen & quote.trades & (wish.sign() != positions.sign())
    return _rebalance(cash, positions, wish.expand_as(positions), moves, quote, rates, margin)


def _rebalance(
    cash: Tensor, positions: Tensor, weights: Tensor, moves: Tensor, quote: Quote, rates: CostRates, margin: Margin
) -> Traded:
    weights = torch.where(moves, weights if margin.short else weights.clamp(min=0.0), 0.0)
    worth = values(positions, quote.price)
    equity = cash + worth.sum(1)
    alive = equity > 0
    price = torch.where(moves, quote.price, 1.0)
    fixed = torch.where(moves, 0.0, worth.abs()).sum(1)
    gross = weights.abs().sum(1)
    some = torch.where(gross > 0, gross, 1.0)
    least = (DUST * equity)[:, None]

    def trades(after: Tensor) -> tuple[Tensor, Tensor]:
        bound = (after * (1.0 - SPARE_EQUITY) / margin.initial - fixed) / some
        bound = torch.where(gross > 0, bound.clamp(min=0.0), after)
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
        gap = after + fees(rates, change, price, quote.volume).sum(1) - equity
        steepness = _fee_slope(rates, change, price, quote.volume) * weights * base_slope[:, None] / price
        slope = 1.0 + steepness.sum(1)
        low, high = torch.where(gap > 0, low, after), torch.where(gap > 0, after, high)
        nearer = after - gap / torch.where(slope > 0, slope, 1.0)
        inside = (slope > 0) & (low <= nearer) & (nearer <= high)
        after = torch.where(gap == 0, after, torch.where(inside, nearer, (low + high) / 2.0))
    goals, _ = trades(after)
    change = moves_to(goals)
    fee = fees(rates, change, price, quote.volume)
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
        _ratio(moved, equity),
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
    cash: Tensor, positions: Tensor, target: Tensor, moves: Tensor, quote: Quote, rates: CostRates, margin: Margin
) -> Traded:
    if not margin.short:
        target = target.clamp(min=0.0)
    worth = values(positions, quote.price)
    equity = cash + worth.sum(1)
    price = torch.where(moves, quote.price, 0.0)
    excess = torch.where(moves, 0.0, worth - margin.initial * worth.abs()).sum(1)
    turns = target * positions < 0
    goal = torch.where(moves, target, positions)
    opens = (moves & (turns | (target.abs() > positions.abs()))).any(1)
    change = goal - positions
    cost = fees(rates, change, price, quote.volume).sum(1)
    left = cash - ((change * price).sum(1) + cost)
    free = left + (excess + (goal * price - margin.initial * (goal * price).abs()).sum(1))
    carried = torch.where(opens, free >= 0, (left >= 0) | margin.lends)

    # What cannot be carried is at least reduced to nothing, where it would have turned.
    fallback = torch.where(moves & turns, 0.0, positions)
    back = fallback - positions
    back_cost = fees(rates, back, price, quote.volume).sum(1)
    back_left = cash - ((back * price).sum(1) + back_cost)
    reduced = (back_left >= 0) | margin.lends
    after = torch.where(carried[:, None], goal, torch.where(reduced[:, None], fallback, positions))
    traded = after - positions
    return Traded(
        torch.where(carried, left, torch.where(reduced, back_left, cash)),
        after,
        torch.where(carried, cost, torch.where(reduced, back_cost, 0.0)),
        _ratio((traded.abs() * price).sum(1), equity),
        traded,
    )


def close_positions(
    cash: Tensor,
    positions: Tensor,
    accounts: Tensor | None,
    ends: Tensor | None,
    rows: MarketRows,
    rates: CostRates,
) -> Traded:
    """Closes ended assets (`ends`, (T, A)) everywhere and every position that trades in some `accounts` (N,) bool.

    Either of the two may be None, for none.
    """
    quote = quote_at(rows, rates)
    closing = torch.zeros_like(quote.trades) if accounts is None else accounts[:, None] & quote.trades
    if ends is not None:
        closing = closing | ends[rows.time]
    units = rows.volume[rows.time].double() if rates.impact > 0 and rows.volume is not None else None
    return close_at(cash, positions, closing, quote.price, units, rates)


def close_at(
    cash: Tensor, positions: Tensor, closing: Tensor, price: Tensor, volume: Tensor | None, rates: CostRates
) -> Traded:
    """Closes the positions where `closing` (N, A) says so, at `price` (N, A); `volume` (N, A) is for impact."""
    closing = closing & (positions != 0)
    equity = cash + _add_up(values(positions, price))
    price = torch.where(closing, price, 0.0)
    traded = torch.where(closing, -positions, 0.0)
    worth = traded.abs() * price
    if volume is None:
        fee = fees(rates._replace(impact=0.0), traded, price, price)
    else:
        # A bar without volume has no impact.
        fee = fees(rates, traded, price, torch.where(volume > 0, volume, torch.inf))
    fee = torch.minimum(fee, worth)
    left = _add_up(-traded * price - fee, start=cash)
    return Traded(left, positions + traded, fee.sum(1), _ratio(worth.sum(1), equity), traded)


def adjust(
    cash: Tensor, positions: Tensor, time: Tensor, dividends: Tensor | None, splits: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Cash and positions after the bar's corporate actions: units times splits, then money per unit."""
    if splits is not None:
        positions = values(positions, splits[time].double())
    if dividends is not None:
        cash = cash + _add_up(values(positions, dividends[time].double()))
    return cash, positions


def mark(cash: Tensor, positions: Tensor, time: Tensor, marks: Tensor, rates: CostRates, margin: Margin) -> Marked:
    """One bar's borrow and funding, then the equity at these marks, and who is below the maintenance margin."""
    worth = values(positions, marks[time].double())
    net, gross = worth.sum(1), worth.abs().sum(1)
    carry = rates.borrow * ((gross - net) / 2.0 + (-cash).clamp(min=0.0)) + rates.funding * net
    cash = cash - carry
    equity = cash + net
    return Marked(cash, equity, carry, equity < margin.maintenance * gross)


def quote_at(rows: MarketRows, rates: CostRates) -> Quote:
    """Gathers each account's row."""
    price = rows.prices[rows.time].double()
    trades = rows.tradable[rows.time] & (price > 0)
    if rates.impact > 0 and rows.volume is not None:
        units = rows.volume[rows.time].double()
        trades = trades & (units > 0)
        return Quote(price, torch.where(trades, units, 1.0), trades)
    return Quote(price, torch.ones_like(price), trades)


def fees(rates: CostRates, quantity: Tensor, price: Tensor, volume: Tensor) -> Tensor:
    """Commission, spread and impact in money; 0 where nothing is traded."""
    size = quantity.abs()
    value = size * price
    commission = value * rate_of(rates, quantity) + size * rates.per_share
    if rates.minimum > 0:
        commission = torch.where(size > 0, commission.clamp(min=rates.minimum), 0.0)
    total = commission + value * rates.half_spread
    if rates.impact > 0:
        total = total + value * (rates.impact * (size / volume).sqrt())
    return total


def rate_of(rates: CostRates, quantity: Tensor) -> Tensor | float:
    """The commission rate of a buy or of a sell."""
    if rates.sell_rate == rates.buy_rate:
        return rates.buy_rate
    # Two numbers alone would make a float32.
    return torch.where(quantity > 0, torch.full_like(quantity, rates.buy_rate), rates.sell_rate)


def values(positions: Tensor, price: Tensor) -> Tensor:
    """The value of each position; an asset that is not held needs no price."""
    return torch.where(positions != 0, positions * price, 0.0)


def _add_up(columns: Tensor, start: Tensor | None = None) -> Tensor:
    """The sum of each row, from left to right."""
    total = torch.zeros_like(columns[:, 0]) if start is None else start
    for column in columns.unbind(1):
        total = total + column
    return total


def _ratio(part: Tensor, whole: Tensor) -> Tensor:
    return torch.where(whole > 0, part / torch.where(whole > 0, whole, 1.0), 0.0)

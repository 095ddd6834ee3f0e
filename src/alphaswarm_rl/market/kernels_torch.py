"""The Book for N accounts at once, in torch: what runs on a GPU.

The same meaning as `kernels_numba`, whose shapes and units these share, with two differences: nothing is changed in
place, every function returns new tensors; and nothing waits for the device, as no Python branch looks at a tensor's
values, so that `torch.compile` makes a few kernels of each. Accounting is float64.

Money that decides on whole shares is added column by column, in the Book's order, and never by a tree reduction: share
counts are then the Book's, exactly.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from alphaswarm_rl.market.costs import NEWTON_STEPS, SPARE_CASH, CostRates
from alphaswarm_rl.market.margin import Margin


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


class Market(NamedTuple):
    """What each account is shown: price, volume and whether it trades, (N, A)."""

    price: Tensor
    volume: Tensor
    trades: Tensor


def market_at(time: Tensor, prices: Tensor, tradable: Tensor, volume: Tensor | None, rates: CostRates) -> Market:
    """Gathers each account's row."""
    price = prices[time].double()
    trades = tradable[time] & (price > 0)
    if rates.impact > 0 and volume is not None:
        units = volume[time].double()
        trades = trades & (units > 0)
        return Market(price, torch.where(trades, units, 1.0), trades)
    return Market(price, torch.ones_like(price), trades)


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


def trade_shares(
    cash: Tensor,
    positions: Tensor,
    orders: Tensor,
    time: Tensor,
    prices: Tensor,
    tradable: Tensor,
    volume: Tensor | None,
    rates: CostRates,
    *,
    whole: bool,
) -> Traded:
    """`Book.trade_shares` for every account; `orders` (N, A) are units to buy, negative to sell."""
    market = market_at(time, prices, tradable, volume, rates)
    equity = cash + _add_up(values(positions, market.price))
    price = torch.where(market.trades, market.price, 0.0)
    wanted = orders.double().trunc() if whole else orders.double()
    wanted = torch.where(market.trades, torch.maximum(wanted, (-positions).clamp(max=0.0)), 0.0)
    worth = wanted.abs() * price
    fee = fees(rates, wanted, price, market.volume)
    selling = (wanted < 0) & (worth > fee)
    buying = wanted > 0
    money = _add_up(torch.where(selling, worth - fee, 0.0), start=cash)
    total = _add_up(torch.where(buying, worth + fee, 0.0))
    everything = total <= money

    size, order = torch.sort(torch.where(buying, wanted, 0.0), dim=1, descending=True, stable=True)
    bought, left = _buy_in_turn(rates, money, size, price.gather(1, order), market.volume.gather(1, order), whole=whole)
    bought = torch.zeros_like(bought).scatter(1, order, bought)
    bought = torch.where(everything[:, None], torch.where(buying, wanted, 0.0), bought)
    traded = torch.where(selling, wanted, bought)
    cost = fees(rates, traded, price, market.volume).sum(1)
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


def close_positions(
    cash: Tensor,
    positions: Tensor,
    rows: Tensor | None,
    ends: Tensor | None,
    time: Tensor,
    prices: Tensor,
    tradable: Tensor,
    volume: Tensor | None,
    rates: CostRates,
) -> Traded:
    """Closes ended assets (`ends`, (T, A)) everywhere and every position that trades in accounts `rows` (N,).

    Either of the two may be None, for none.
    """
    market = market_at(time, prices, tradable, volume, rates)
    closing = torch.zeros_like(market.trades) if rows is None else rows[:, None] & market.trades
    if ends is not None:
        closing = closing | ends[time]
    units = volume[time].double() if rates.impact > 0 and volume is not None else None
    return close_at(cash, positions, closing, market.price, units, rates)


def close_at(
    cash: Tensor, positions: Tensor, closing: Tensor, price: Tensor, volume: Tensor | None, rates: CostRates
) -> Traded:
    """Closes the positions where `closing` (N, A) says so, at `price` (N, A); `volume` (N, A) is for impact."""
    closing = closing & (positions != 0)
    equity = cash + _add_up(values(positions, price))
    price = torch.where(closing, price, 0.0)
    traded = torch.where(closing, -positions, 0.0)
    size = traded.abs()
    worth = size * price
    fee = fees(rates._replace(impact=0.0), traded, price, price)
    if rates.impact > 0 and volume is not None:
        share = torch.where(volume > 0, size / torch.where(volume > 0, volume, 1.0), 0.0)
        fee = fee + worth * (rates.impact * share.sqrt())
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


def _add_up(columns: Tensor, start: Tensor | None = None) -> Tensor:
    """The sum of each row, from left to right."""
    total = torch.zeros_like(columns[:, 0]) if start is None else start
    for column in columns.unbind(1):
        total = total + column
    return total


def _ratio(part: Tensor, whole: Tensor) -> Tensor:
    return torch.where(whole > 0, part / torch.where(whole > 0, whole, 1.0), 0.0)

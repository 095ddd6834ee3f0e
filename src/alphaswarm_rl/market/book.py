"""The definition of accounting here: one account in plain floats.

The batched kernels are held to this file by property tests. Quantities are in units of the asset (positive: long),
prices and costs in money. Nothing here knows what time it is: the caller hands in the prices of the moment. Within a
bar come corporate actions, then fills, then assets that end, then the mark with its carry.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from alphaswarm_rl.core.errors import BookError
from alphaswarm_rl.market.costs import CostModel, Fee, affordable, charge, fee
from alphaswarm_rl.market.margin import CASH_ACCOUNT, Margin
from alphaswarm_rl.market.quotes import Fill, Numbers, Quotes
from alphaswarm_rl.market.rebalance import holdings_for
from alphaswarm_rl.market.sizing_rules import (
    BUYING_POWER,
    COSTS,
    NO_EQUITY,
    NOT_TRADABLE,
    NOTHING,
    SizingRules,
)
from alphaswarm_rl.market.unit_trades import UnitTrades


@dataclass
class Book:
    """One account: cash, signed positions, and the rules by which they change.

    Without margin (`CASH_ACCOUNT`) neither cash nor a position is ever negative.
    """

    cash: float
    positions: list[float]
    costs: CostModel = field(default_factory=CostModel)
    margin: Margin = CASH_ACCOUNT
    periods_per_year: float = 252.0

    def __post_init__(self) -> None:
        self.margin.check_costs(self.costs)
        self.rates = self.costs.rates(self.periods_per_year)

    def net(self, marks: Numbers) -> float:
        """The value of all positions, shorts negative. An asset that is not held needs no price."""
        total = 0.0
        for position, mark in zip(self.positions, marks, strict=True):
            total += position * mark if position else 0.0
        return total

    def gross(self, marks: Numbers) -> float:
        """The value of all positions, shorts positive."""
        return sum(abs(position * mark) for position, mark in zip(self.positions, marks, strict=True) if position)

    def equity(self, marks: Numbers) -> float:
        """Cash and positions at these marks."""
        return self.cash + self.net(marks)

    def trade_shares(self, orders: Numbers, quotes: Quotes, *, whole: bool = True) -> tuple[Fill, ...]:
        """Sells and buys units as FinRL does: sells first, then buys by size, each bound by the cash that is left.

        A sell is cut to the position; one whose costs eat up its proceeds is not made. The order among sells changes
        nothing. If the remaining cash pays for all buys, all are filled; otherwise the largest comes first (the lower
        index among equals), is filled as far as the cash reaches, and so on; a fractional buy that is cut is the last.

        Args:
            orders: Units per asset, positive to buy.
            quotes: The market at the fill.
            whole: Whether orders are cut to whole units, towards zero.
        """
        self._check(orders, quotes, "orders")
        sizes = [float(math.trunc(order)) if whole else float(order) for order in orders]
        buys: list[tuple[int, float, float]] = []
        total = 0.0
        fills: list[Fill] = []
        for asset, order in enumerate(sizes):
            if not quotes.trades(asset, self.rates):
                continue
            price, volume = quotes.prices[asset], quotes.volume_of(asset)
            sold = min(-order, self.positions[asset])
            if order > 0:
                buys.append((asset, order, charge(self.rates, order, price, volume)))
                total += buys[-1][2]
            elif sold > 0:
                proceeds = sold * price - fee(self.rates, -sold, price, volume).total
                if proceeds > 0:
                    self.cash += proceeds
                    fills.append(self._record(asset, -sold, quotes))
        if total <= self.cash:
            self.cash -= total
            return (*fills, *(self._record(asset, size, quotes) for asset, size, _ in buys))
        for asset, size, full in sorted(buys, key=lambda buy: -buy[1]):
            price, volume = quotes.prices[asset], quotes.volume_of(asset)
            bought = size if full <= self.cash else affordable(self.rates, self.cash, price, volume, whole=whole)
            if bought > 0:
                self.cash -= charge(self.rates, bought, price, volume)
                fills.append(self._record(asset, bought, quotes))
            if bought < size and not whole:
                break
        return tuple(fills)

    def trade_units(self, orders: Numbers, quotes: Quotes, *, lot: float = 0.0) -> tuple[Fill, ...]:
        """Fills orders in units on an account of any margin; what a decision that made units of weights is filled by.

        What reduces a position is filled first, as a sell of a cash account only where it brings more than it costs.
        Then comes what opens or enlarges one, the most valuable first (the lower index among equals), as far as
        the initial margin of all positions is there, which in a cash account is the cash. A fractional one that is cut
        is the last.

        Args:
            orders: Units per asset, positive to buy; they are not rounded.
            quotes: The market at the fill.
            lot: Units that an order which is cut stays a multiple of; 0: any fraction.
        """
        self._check(orders, quotes, "orders")
        trades = UnitTrades(self.rates, self.margin, self.cash, self.positions, quotes, lot)
        trades.fill(orders)
        self.cash = trades.cash
        return tuple(self._record(asset, moved, quotes) for asset, moved in trades.moved.items())

    def size_orders(self, targets: Numbers, quotes: Quotes, rules: SizingRules) -> tuple[list[float], list[int]]:
        """Orders that make target weights at the last known prices, and why one is less: indices into `SHORTFALLS`.

        The rules come first, then buying power: orders are what `trade_units` would fill at these prices. The account
        is not changed.

        Args:
            targets: Parts of the equity before costs.
            quotes: The market when the decision is made.
            rules: Which orders are made.
        """
        self._check(targets, quotes, "target weights")
        equity = self.equity(quotes.prices)
        by_rules, reasons = [0.0] * len(targets), [NOTHING] * len(targets)
        for asset, (target, held) in enumerate(zip(targets, self.positions, strict=True)):
            weight = target if self.margin.short else max(target, 0.0)
            if weight == 0 and held == 0:
                continue
            if not equity > 0:
                reasons[asset] = NO_EQUITY
            elif not quotes.trades(asset, self.rates):
                reasons[asset] = NOT_TRADABLE
            else:
                by_rules[asset], reasons[asset] = rules.order(weight, held, equity, quotes.prices[asset])
        account = Book(self.cash, list(self.positions), self.costs, self.margin, self.periods_per_year)
        orders = [0.0] * len(targets)
        for fill in account.trade_units(by_rules, quotes, lot=rules.lot):
            orders[fill.asset] = fill.quantity
        for asset, order in enumerate(orders):
            if order != by_rules[asset]:
                unmade = by_rules[asset] < 0 < self.positions[asset] and not self.margin.lends
                reasons[asset] = COSTS if unmade else BUYING_POWER
            if 0 < abs(order) * quotes.prices[asset] < rules.min_notional:
                orders[asset], reasons[asset] = 0.0, BUYING_POWER
        return orders, reasons

    def trade_to_weights(self, targets: Numbers, quotes: Quotes) -> tuple[Fill, ...]:
        """Trades until each position is its target's part of the equity *after* costs; the rest, 1 - sum, is cash.

        Assets that cannot trade keep their position. Targets that the account cannot carry (a sum above 1 without
        margin, a gross above 1 / initial with it) are all cut by one factor; nothing is ever scaled up. A negative
        target counts as 0 where shorts are not allowed. If no such trade can be paid for, none is made.
        """
        self._check(targets, quotes, "target weights")
        moving = [asset for asset in range(len(targets)) if quotes.trades(asset, self.rates)]
        return self._rebalance({asset: float(targets[asset]) for asset in moving}, quotes)

    def trade_to_position(
        self, asset: int, direction: float, quotes: Quotes, *, fraction: float | None = None, units: float | None = None
    ) -> tuple[Fill, ...]:
        """Goes short (-1), flat (0) or long (1) in one asset, with a fraction of the equity or a number of units.

        By fraction, a position that already has the direction is held as it is; otherwise it is traded as a target
        weight. By units, the target is `direction * units` (whole multiples are allowed): what reduces the position
        always trades, what opens one trades only if cash and initial margin carry all of it afterwards.
        """
        self._check([direction], None, "direction")
        if (fraction is None) == (units is None):
            raise BookError("the size of a position", "it needs either a fraction or units", "Give one of the two.")
        held = self.positions[asset]
        if not quotes.trades(asset, self.rates):
            return ()
        if fraction is not None:
            same = (direction > 0) == (held > 0) and (direction < 0) == (held < 0)
            return () if same else self._rebalance({asset: direction * fraction}, quotes)
        assert units is not None
        target = direction * units if self.margin.short else max(direction * units, 0.0)
        reduced = 0.0 if target * held < 0 else held
        for goal, opens in ((target, abs(target) > abs(held) or target * held < 0), (reduced, False)):
            if goal == held:
                return ()
            cash = self._cash_after(asset, goal - held, quotes)
            free = cash + self._excess(asset, goal, quotes.prices)
            if free >= 0 if opens else (cash >= 0 or self.margin.lends):
                self.cash = cash
                return (self._record(asset, goal - held, quotes, to=goal),)
        return ()

    def close(self, assets: Iterable[int], quotes: Quotes, reason: str) -> tuple[Fill, ...]:
        """Closes positions by force, at the price given even where nothing trades: an asset that ends, a margin call.

        Costs are as always, but at most the value traded, and impact counts only where there is volume.
        """
        fills = []
        for asset in assets:
            held = self.positions[asset]
            if held == 0:
                continue
            price, volume = quotes.prices[asset], quotes.volume_of(asset)
            rates = self.rates if volume > 0 else self.rates._replace(impact=0.0)
            paid, value = fee(rates, -held, price, volume), abs(held) * price
            share = min(1.0, value / paid.total) if paid.total > 0 else 1.0
            self.cash += held * price - paid.total * share
            commission, spread, impact = (part * share for part in paid)
            fills.append(Fill(asset, -held, price, commission, spread, impact, reason))
            self.positions[asset] = 0.0
        return tuple(fills)

    def liquidate(self, quotes: Quotes, reason: str = "margin call") -> tuple[Fill, ...]:
        """Closes by force every position that can trade."""
        return self.close(
            [asset for asset in range(len(self.positions)) if quotes.trades(asset, self.rates)], quotes, reason
        )

    def adjust(self, dividends: Numbers | None = None, splits: Numbers | None = None) -> None:
        """Applies a bar's corporate actions: units times `splits`, then `dividends` per unit, which shorts pay."""
        if splits is not None:
            self.positions = [held * ratio if held else 0.0 for held, ratio in zip(self.positions, splits, strict=True)]
        if dividends is not None:
            self.cash += self.net(dividends)

    def accrue(self, marks: Numbers) -> float:
        """Pays one bar's borrow (on shorts and negative cash) and funding at these marks; returns the money paid."""
        net = self.net(marks)
        short = (self.gross(marks) - net) / 2.0
        paid = self.rates.borrow * (short + max(-self.cash, 0.0)) + self.rates.funding * net
        self.cash -= paid
        return paid

    def called(self, marks: Numbers) -> bool:
        """Whether the equity is below the maintenance margin."""
        return self.equity(marks) < self.margin.maintenance * self.gross(marks)

    def _rebalance(self, targets: dict[int, float], quotes: Quotes) -> tuple[Fill, ...]:
        goals = holdings_for(self.rates, self.margin, self.cash, self.positions, targets, quotes)
        fills = []
        for asset, goal in goals.items():
            self.cash = self._cash_after(asset, goal - self.positions[asset], quotes)
            fills.append(self._record(asset, goal - self.positions[asset], quotes, to=goal))
        return tuple(fills)

    def _cash_after(self, asset: int, quantity: float, quotes: Quotes) -> float:
        price = quotes.prices[asset]
        return self.cash - (quantity * price + fee(self.rates, quantity, price, quotes.volume_of(asset)).total)

    def _excess(self, asset: int, goal: float, prices: Numbers) -> float:
        """Value less initial margin of all positions, with `goal` units of the asset."""
        excess = 0.0
        for other, position in enumerate(self.positions):
            if other != asset and position:
                excess += position * prices[other] - self.margin.initial * abs(position * prices[other])
        return excess + (goal * prices[asset] - self.margin.initial * abs(goal * prices[asset]))

    def _record(self, asset: int, quantity: float, quotes: Quotes, *, to: float | None = None) -> Fill:
        """Moves the position, not the cash; `to` is the position afterwards, free of rounding."""
        paid: Fee = fee(self.rates, quantity, quotes.prices[asset], quotes.volume_of(asset))
        self.positions[asset] = self.positions[asset] + quantity if to is None else to
        return Fill(asset, quantity, quotes.prices[asset], *paid)

    def _check(self, numbers: Numbers, quotes: Quotes | None, what: str) -> None:
        if not all(math.isfinite(number) for number in numbers):
            raise BookError(what, "some are not finite numbers", "Give one finite number per asset.")
        if quotes is None:
            return
        self.costs.check_volume(quotes.volume)
        if not len(numbers) == len(quotes.prices) == len(self.positions):
            raise BookError(what, f"there are {len(numbers)} for {len(self.positions)} assets", "Give one per asset.")

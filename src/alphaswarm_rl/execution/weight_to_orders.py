"""From target weights to orders: by the very code that a decision step with `sizing: at_decision` runs.

Whatever is not known is not assumed: without positions, cash or a price that is needed nothing is ordered, and the
result says why. What is wrong in itself, such as an unknown symbol, is an error.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from alphaswarm_rl.core.contracts import HaltToken
from alphaswarm_rl.core.errors import OrderError, nearest
from alphaswarm_rl.core.orders import (
    DomainOrder,
    OrderResult,
    Price,
    Skipped,
    TargetWeights,
    TimeInForce,
    client_order_id,
    in_nanoseconds,
)
from alphaswarm_rl.core.types import Array
from alphaswarm_rl.market.costs import CostModel
from alphaswarm_rl.market.margin import CASH_ACCOUNT, Margin
from alphaswarm_rl.market.sizing import SHORTFALLS, SizedOrders, SizingRules, size_orders

#: Why nothing may be sent.
HALTED, POSITIONS_UNKNOWN, CASH_UNKNOWN = "halted", "positions_unknown", "cash_unknown"
PRICE_UNKNOWN, PRICE_STALE, MARKET_CLOSED, NO_BUYING_POWER = (
    "price_unknown",
    "price_stale",
    "market_closed",
    "no_buying_power",
)
#: Why one order is not made, beside `SHORTFALLS`.
STALE_PRICE = "stale_price"

_ROUNDING = 1e-9
_SECOND = np.timedelta64(1, "s")


@dataclass(frozen=True)
class AccountNow:
    """What an account has, and what is known of the market, when target weights become orders.

    Attributes:
        cash: Money; None: it cannot be had.
        positions: Units by symbol, negative when short; an asset that is not in it is not held. None: they cannot be
            had, which is not the same as none.
        prices: The last known price of each symbol that has one.
        tradable: The symbols that trade now; None: all, the empty set: the market is closed.
        volumes: Units that the last bar traded, by symbol; needed by impact alone.
        now: The time by which prices are stale or not; None: that of the targets.
    """

    cash: float | None
    positions: Mapping[str, float] | None
    prices: Mapping[str, Price]
    tradable: Collection[str] | None = None
    volumes: Mapping[str, float] | None = None
    now: np.datetime64 | None = None


@dataclass(frozen=True)
class WeightToOrders:
    """Makes orders of target weights, by one account's rules.

    Attributes:
        rules: Which orders are made.
        costs: What trading costs: buys are bound by what is left after it.
        margin: What may be owed.
        max_price_age: Seconds after which a price is stale; None: no price ever is.
        time_in_force: How long orders hold.
        halt: The kill switch, asked before anything else; None: whoever calls has asked it.
    """

    rules: SizingRules = field(default_factory=SizingRules)
    costs: CostModel = field(default_factory=CostModel)
    margin: Margin = CASH_ACCOUNT
    max_price_age: float | None = None
    time_in_force: TimeInForce = "day"
    halt: HaltToken | None = None

    def orders(self, target: TargetWeights, account: AccountNow, *, run_id: str) -> OrderResult:
        """The orders that bring the account to its targets, reductions first, and what is not ordered and why.

        Args:
            target: What it shall have.
            account: What it has.
            run_id: The run whose policy decided: part of the orders' names.
        """
        self._refuse_unfit(target, account)
        aborted = self._why_not(target, account)
        if aborted is not None:
            return OrderResult(target.sha256, aborted=aborted[0], detail=aborted[1])
        positions, cash = account.positions, account.cash
        assert positions is not None
        assert cash is not None
        stale = self._stale(target, account)
        held = np.array([float(positions.get(symbol, 0.0)) for symbol in target.assets])
        prices = np.array([_value(account.prices.get(symbol)) for symbol in target.assets])
        equity = cash + float((held * prices)[held != 0].sum())
        if not equity > 0:
            why = f"the account is worth {equity:.2f} at the last known prices"
            return OrderResult(target.sha256, aborted=NO_BUYING_POWER, detail=why)
        trades = [(account.tradable is None or symbol in account.tradable) for symbol in target.assets]
        fresh = [trade and symbol not in stale for trade, symbol in zip(trades, target.assets, strict=True)]
        sized = self._sized(target, account, cash, held, prices, np.array(fresh))
        orders = self._named(target, sized.orders[0], held, prices, run_id)
        return OrderResult(target.sha256, orders, _skipped(target, sized, stale))

    def _refuse_unfit(self, target: TargetWeights, account: AccountNow) -> None:
        """Refuses what is wrong in itself."""
        self._refuse_account(account, set(target.assets))
        self._refuse_target(target)

    def _refuse_account(self, account: AccountNow, known: set[str]) -> None:
        for symbol, units in (account.positions or {}).items():
            if not math.isfinite(units):
                raise OrderError(f"the position in {symbol}", f"it is {units}", "Ask the broker again.")
            if units != 0 and symbol not in known:
                raise OrderError(
                    f"the symbol {symbol!r}",
                    "the account holds it, and the targets do not say what is to become of it",
                    f"Give it a target weight, 0 to sell it. {nearest(symbol, known)}",
                )
            if units < 0 and not self.margin.short:
                raise OrderError(
                    f"the position of {units} in {symbol}", "the account cannot be short", "Give the account's margin."
                )
        for symbol in account.tradable or ():
            if symbol not in known:
                raise OrderError(f"the symbol {symbol!r}", "the targets have none", nearest(symbol, known))
        if account.cash is not None and not math.isfinite(account.cash):
            raise OrderError("the account's cash", f"it is {account.cash}", "Ask the broker again.")

    def _refuse_target(self, target: TargetWeights) -> None:
        short = next((symbol for symbol, weight in target.as_dict().items() if weight < 0), None)
        if short is not None and not self.margin.short:
            raise OrderError(
                f"the target weight of {short}", "it is negative, and the account cannot be short", "Give it margin."
            )
        total, most = float(np.abs(target.weights).sum()), 1.0 / self.margin.initial
        if total > most + _ROUNDING:
            raise OrderError(
                f"target weights whose absolute values sum to {total:.6g}",
                f"the account carries at most {most:.6g}",
                "Scale them down, or give the account margin.",
            )

    def _why_not(self, target: TargetWeights, account: AccountNow) -> tuple[str, str] | None:
        """Why nothing may be sent: the word, and the sentence."""
        if self.halt is not None and self.halt.should_halt():
            return HALTED, "the kill switch is engaged, or has been silent for too long"
        if account.positions is None:
            return POSITIONS_UNKNOWN, "the positions could not be had, which is not the same as none"
        if account.cash is None:
            return CASH_UNKNOWN, "the cash could not be had"
        if account.tradable is not None and not account.tradable:
            return MARKET_CLOSED, "nothing can be traded now"
        return self._price_trouble(target, account, account.positions)

    def _price_trouble(
        self, target: TargetWeights, account: AccountNow, positions: Mapping[str, float]
    ) -> tuple[str, str] | None:
        """The price without which the equity, or an order, is not known."""
        for symbol, weight in zip(target.assets, target.weights.tolist(), strict=True):
            held = positions.get(symbol, 0.0) != 0
            bought = weight != 0 and (account.tradable is None or symbol in account.tradable)
            if (held or bought) and not _value(account.prices.get(symbol)) > 0:
                return PRICE_UNKNOWN, f"{symbol} {'is held' if held else 'has a target weight'}, and no price"
        for symbol, age in self._stale(target, account).items():
            if positions.get(symbol, 0.0) != 0:
                return PRICE_STALE, f"{symbol} is held, and its price is {age:.0f} s old"
        return None

    def _stale(self, target: TargetWeights, account: AccountNow) -> dict[str, float]:
        """The age in seconds of prices that are too old, of assets that trade: others have no newer one."""
        if self.max_price_age is None:
            return {}
        now = target.timestamp if account.now is None else in_nanoseconds(account.now)
        ages = {
            symbol: float((now - in_nanoseconds(price.at)) / _SECOND)
            for symbol in target.assets
            if (account.tradable is None or symbol in account.tradable)
            and (price := account.prices.get(symbol)) is not None
        }
        return {symbol: age for symbol, age in ages.items() if age > self.max_price_age}

    def _sized(
        self, target: TargetWeights, account: AccountNow, cash: float, held: Array, prices: Array, trades: Array
    ) -> SizedOrders:
        volume = None
        if account.volumes is not None:
            volume = np.array([[float(account.volumes.get(symbol, 0.0)) for symbol in target.assets]])
        # What is borrowed is no cost of an order: the length of a bar plays no part.
        rates = self.costs.rates(periods_per_year=1.0)
        rows = (np.array([cash]), held[None], target.weights[None].copy(), prices[None], trades[None])
        return size_orders(*rows, rates, self.margin, self.rules, volume)

    def _named(
        self, target: TargetWeights, orders: Array, held: Array, prices: Array, run_id: str
    ) -> tuple[DomainOrder, ...]:
        """Orders that reduce in the order of assets, then the others, the most valuable first."""
        reduces = (held != 0) & ((orders > 0) == (held < 0))
        ranked = sorted(
            np.flatnonzero(orders).tolist(),
            key=lambda index: (not reduces[index], 0.0 if reduces[index] else -abs(orders[index]) * prices[index]),
        )
        return tuple(
            DomainOrder(
                client_id=client_order_id(run_id, target.timestamp, target.assets[index], float(target.weights[index])),
                symbol=target.assets[index],
                side="buy" if orders[index] > 0 else "sell",
                quantity=float(abs(orders[index])),
                time_in_force=self.time_in_force,
                reason="rebalance" if target.weights[index] != 0 else "exit",
            )
            for index in ranked
        )


def _skipped(target: TargetWeights, sized: SizedOrders, stale: Mapping[str, float]) -> tuple[Skipped, ...]:
    found = []
    for symbol, code in zip(target.assets, sized.reasons[0].tolist(), strict=True):
        if code and symbol in stale:
            found.append(Skipped(symbol, STALE_PRICE, f"its price is {stale[symbol]:.0f} s old"))
        elif code:
            found.append(Skipped(symbol, SHORTFALLS[code]))
    return tuple(found)


def _value(price: Price | None) -> float:
    """Money per unit; 0 where there is none."""
    return price.value if price is not None and math.isfinite(price.value) and price.value > 0 else 0.0

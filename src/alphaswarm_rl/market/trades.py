"""Positions and fills of recorded steps in money: worked out after the fact, of what a `TradeLog` holds.

A row is one step of one account; arrays are (R,) over rows or (R, A) over rows and assets, NumPy's and float64. What a
step does to an account, in order, and how it adds up:

    quantity = quantity_before + fills + split_quantity                                 of every asset
    cash     = cash_before - fills' value - their commission, spread and impact - carry + dividends
    equity   = cash + the positions' value

The parts of a fill's cost are the formulas of `costs.fee`; their sum is held to the kernels' own total by tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from alphaswarm_rl.arrays.backend_numpy import NUMPY
from alphaswarm_rl.core.contracts import Trade
from alphaswarm_rl.core.risk_limits import LimitBreach, breaches_of
from alphaswarm_rl.core.types import Array, NamedArrays
from alphaswarm_rl.market.costs import CostModel, CostRates
from alphaswarm_rl.market.decider import GATE, Decider
from alphaswarm_rl.market.market import Market, market_of

#: Why a fill was made.
REASONS = ("action", "gate", "stop", "take_profit", "asset_ended", "margin_call")
_ACTION, _GATED, _STOP, _TAKE, _ENDED, _CALLED = range(len(REASONS))


class Positions(NamedTuple):
    """What accounts held before and after steps.

    Attributes:
        quantity_before: Units before, (R, A).
        quantity: Units after.
        price_before: The close before the step, in units before splits.
        price: The close after it.
        split_quantity: Units that a split brought, without a fill.
        dividends: Money that they paid; negative where shorts owed it.
        carry: Borrow and funding of the step in money, paid where positive.
        cash_carry: Borrow on negative cash, (R,).
        targets: After each stage, (R, A, K); NaN where an asset has none.
    """

    quantity_before: Array
    quantity: Array
    price_before: Array
    price: Array
    split_quantity: Array
    dividends: Array
    carry: Array
    cash_carry: Array
    targets: Array


class Fills(NamedTuple):
    """Fills, in the order of their rows and of what came first in a step; each (F,).

    Attributes:
        row: The row it belongs to.
        number: Its place among the fills of that row.
        asset: Which asset.
        quantity: Units, negative when sold.
        price: Money per unit.
        commission: In money.
        spread: In money.
        impact: In money.
        reason: Index into `REASONS`.
    """

    row: Array
    number: Array
    asset: Array
    quantity: Array
    price: Array
    commission: Array
    spread: Array
    impact: Array
    reason: Array


@dataclass(frozen=True, eq=False)
class TradedNames:
    """What the numbers of a trading environment are about.

    Attributes:
        assets: The symbols, in the order of the columns.
        action: What each component of an action is about.
        stages: What targets come from, in order.
        targets: What targets are: `weights`, `shares` or `position`.
    """

    assets: tuple[str, ...]
    action: tuple[str, ...]
    stages: tuple[str, ...]
    targets: str


@dataclass(frozen=True, eq=False)
class TradeTables:
    """What trades of an environment happened at: its market on the host, its costs, and how it trades.

    Attributes:
        names: What the numbers are about.
        market: The market, in NumPy's arrays.
        rates: What trading costs.
        trade: How targets are traded.
        limits: The limits of portfolio stages, by name, in the order of what was measured.
    """

    names: TradedNames
    market: Market
    rates: CostRates
    trade: Trade
    limits: tuple[tuple[str, float], ...] = ()

    @classmethod
    def of(cls, decider: Decider, market: Market, costs: CostModel) -> TradeTables:
        """The tables of what a decider trades in a market of any library."""
        here = market if isinstance(market.close, np.ndarray) else market_of(market.panel, market.fill, NUMPY)
        rates = costs.rates(market.panel.periods_per_year)
        return cls(names_of(decider, market), here, rates, decider.trade, decider.limits)

    def breaches(self, log: Mapping[str, Array]) -> list[tuple[LimitBreach, ...]]:
        """The limits that were reached in each of the logged rows; empty where there are no limits."""
        return breaches_of(self.limits, log["measured"]) if self.limits else []

    def positions(self, log: NamedArrays, cash: Array, carry: Array) -> Positions:
        """The positions of logged rows.

        Args:
            log: The arrays of `TradeLog.arrays`, one entry per row.
            cash: Cash after each row's step.
            carry: The account's borrow and funding.
        """
        market, rates = self.market, self.rates
        bar, before, after = log["bar"], log["quantity_before"], log["quantity"]
        price = _at(market.close, bar)
        # Orders at the close of the decision come before the next bar's split, all others after it.
        early = before if market.fill.lag else before + log["ordered"]
        adjusted = early if market.splits is None else early * _at(market.splits, bar)
        dividends = np.zeros_like(early) if market.dividends is None else adjusted * _at(market.dividends, bar)
        called = log.get("called", np.zeros_like(after))
        worth = (after - called) * price
        paid = _forced(rates, called, price, self._volume(bar))
        at_mark = cash + carry + (called * price + sum(paid)).sum(axis=1)
        return Positions(
            quantity_before=before,
            quantity=after,
            price_before=_at(market.close, bar - 1),
            price=price,
            split_quantity=adjusted - early,
            dividends=dividends,
            carry=rates.borrow * np.maximum(-worth, 0.0) + rates.funding * worth,
            cash_carry=rates.borrow * np.maximum(-at_mark, 0.0),
            targets=self._targets(log),
        )

    def fills(self, log: NamedArrays) -> Fills:
        """The fills of logged rows; those of a step in the order in which they happened."""
        bar, market = log["bar"], self.market
        close, volume, fill_bar = _at(market.close, bar), self._volume(bar), bar - (1 - market.fill.lag)
        found = []
        if "exit_quantity" in log:
            found.append(self._exits(log, 0))
        ordered = log["ordered"]
        at_fill = _at(market.fill_price, fill_bar)
        fees = fees_by_part(self.rates, ordered, at_fill, self._volume(fill_bar))
        found.append(_Source(ordered, at_fill, fees, self._order_reasons(log)))
        if "exit_quantity" in log:
            found.append(self._exits(log, 1))
        for name, reason in (("ended", _ENDED), ("called", _CALLED)):
            if name in log:
                fees = _forced(self.rates, log[name], close, volume)
                found.append(_Source(log[name], close, fees, np.full(close.shape, reason)))
        return _in_order(found)

    def _exits(self, log: NamedArrays, place: int) -> _Source:
        """What a bracket closed, at its own prices."""
        shape = log["quantity"].shape
        quantity, price = np.zeros(shape), np.zeros(shape)
        asset = self.trade.asset
        quantity[:, asset], price[:, asset] = log["exit_quantity"][:, place], log["exit_price"][:, place]
        reason = np.where(log["exit_stop"][:, place] != 0, _STOP, _TAKE)[:, None]
        fees = _forced(self.rates, quantity, price, self._volume(log["bar"]))
        return _Source(quantity, price, fees, np.broadcast_to(reason, shape))

    def _order_reasons(self, log: NamedArrays) -> Array:
        """The gate where it changed the target, else a stop where the action has one that sells, else the action."""
        targets = self._targets(log)
        reasons = np.full(targets.shape[:2], _ACTION)
        if "stopped" in log:
            reasons[log["stopped"]] = _STOP
        if self.names.stages[-1] == GATE:
            reasons[targets[:, :, -1] != targets[:, :, -2]] = _GATED
        return reasons

    def _targets(self, log: NamedArrays) -> Array:
        targets = log["targets"]
        if self.trade.way != "position":
            return targets.swapaxes(1, 2)
        held = log["quantity_before"][:, self.trade.asset]
        # What is left as it is has what is held for its target.
        stay = held / self.trade.size if self.trade.by_units else np.sign(held)
        found = np.full((*log["quantity"].shape, targets.shape[1]), np.nan)
        found[:, self.trade.asset] = np.where(np.isnan(targets), stay[:, None], targets)
        return found

    def _volume(self, bar: Array) -> Array | None:
        return _at(self.market.volume, bar) if self.rates.impact > 0 else None


def names_of(decider: Decider, market: Market) -> TradedNames:
    """What the numbers of such an environment are about."""
    return TradedNames(market.panel.assets, decider.symbols(market.panel), decider.stage_names, decider.trade.way)


class _Source(NamedTuple):
    """What one part of a step filled, (R, A); 0 units where it filled nothing."""

    quantity: Array
    price: Array
    fees: tuple[Array, Array, Array]
    reason: Array


def _in_order(sources: list[_Source]) -> Fills:
    places = [np.nonzero(source.quantity) for source in sources]
    rows = np.concatenate([place[0] for place in places])
    order = np.argsort(rows, kind="stable")
    chosen = [
        (place[1], *(array[place] for array in (source.quantity, source.price, *source.fees, source.reason)))
        for source, place in zip(sources, places, strict=True)
    ]
    columns = [np.concatenate(parts)[order] for parts in zip(*chosen, strict=True)]
    row = rows[order]
    number = np.arange(len(row)) - np.searchsorted(row, row)
    return Fills(row, number, *columns)


def fees_by_part(rates: CostRates, quantity: Array, price: Array, volume: Array | None) -> tuple[Array, Array, Array]:
    """`costs.fee` of many fills: commission, spread and impact in money, 0 where nothing is traded.

    Args:
        rates: What trading costs.
        quantity: Units, negative when sold.
        price: Money per unit.
        volume: Units traded in the bar; None: there is no impact. Without volume there is none either.
    """
    size = np.abs(quantity)
    value = size * price
    rate = np.where(quantity > 0, rates.buy_rate, rates.sell_rate)
    commission = np.where(size > 0, np.maximum(rates.minimum, value * rate + size * rates.per_share), 0.0)
    if volume is None:
        return commission, value * rates.half_spread, np.zeros_like(value)
    share = size / np.where(volume > 0, volume, np.inf)
    return commission, value * rates.half_spread, value * (rates.impact * np.sqrt(share))


def _forced(rates: CostRates, quantity: Array, price: Array, volume: Array | None) -> tuple[Array, Array, Array]:
    """The same of positions closed by force, whose costs are at most their value: then all are cut by one factor."""
    parts = fees_by_part(rates, quantity, price, volume)
    total, value = sum(parts), np.abs(quantity) * price
    share = np.where(total > value, value / np.where(total > 0, total, 1.0), 1.0)
    commission, spread, impact = parts
    return commission * share, spread * share, impact * share


def _at(table: Array, bar: Array) -> Array:
    found: Array = np.asarray(table[bar], np.float64)
    return found

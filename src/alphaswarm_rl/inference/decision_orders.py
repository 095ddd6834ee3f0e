"""From the targets of one decision to orders, by the kernels that fill those of environments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from alphaswarm_rl.core.orders import DomainOrder, Skipped, client_order_id
from alphaswarm_rl.core.types import Array
from alphaswarm_rl.core.view import View
from alphaswarm_rl.market import kernels_numba as kernels
from alphaswarm_rl.market.decider import GATE, Decider
from alphaswarm_rl.market.rebalance import DUST
from alphaswarm_rl.market.sizing import SHORTFALLS, SizingRules, size_orders

if TYPE_CHECKING:
    from alphaswarm_rl.inference.policy_plan import MarketRules

_NO_VOLUME = np.empty((0, 0))


@dataclass(frozen=True, eq=False)
class SizedTargets:
    """Units of one account's orders.

    Attributes:
        units: Units to buy, negative to sell, (A,).
        asked: Units that the targets ask for, (A,).
        reasons: Why an order is less than that, in one word; empty where nothing stands in its way.
    """

    units: Array
    asked: Array
    reasons: tuple[str, ...]


def sized(view: View, decider: Decider, targets: Array, rules: MarketRules) -> SizedTargets:
    """Orders of one account in units.

    With sizing at the decision they are those that the environment orders. Otherwise units are made at the fill, whose
    price nobody knows yet: these are what would be traded if orders filled at the last close.

    Args:
        view: The account, one row.
        decider: What made the targets.
        targets: The targets, (1, A), or (1,) where they are a position.
        rules: Costs, margin and sizing.
    """
    if rules.sizing is not None:
        return _at_decision(view, targets, rules, rules.sizing)
    market, trade, margin = view.market, decider.trade, rules.margin
    cash, positions = view.cash.copy(), view.positions.copy()
    rates = np.array(rules.costs.rates(market.panel.periods_per_year))
    # Rows of their own: kernels are compiled anew for arrays that cannot be written to.
    volume = market.volume[view.bar] if rules.costs.impact > 0 else _NO_VOLUME
    traded, cost, turnover = np.zeros_like(positions), np.empty(1), np.empty(1)
    account, close = (0, 1, cash, positions), view.close
    fill = (np.zeros(1, np.int64), close, market.tradable[view.bar], volume, rates)
    results = (cost, turnover)
    worth = np.where(close > 0, close, 1.0)
    if trade.way == "shares":
        asked = targets.copy()
        kernels.trade_shares(*account, targets.copy(), *fill, trade.whole, *results, traded)
    elif trade.way == "weights":
        asked = targets * view.value[:, None] / worth - view.positions
        kernels.trade_to_weights(*account, targets.copy(), *fill, margin.initial, margin.short, *results, traded)
    else:
        asked, asset = np.zeros_like(positions), trade.asset
        size = trade.size if trade.by_units else trade.size * view.value[0] / worth[0, asset]
        if np.isfinite(targets[0]):
            asked[0, asset] = targets[0] * size - view.positions[0, asset]
        of_asset, limits = np.empty(1), (margin.initial, margin.short, float(trade.size), trade.by_units)
        index = np.array([asset], np.int64)
        kernels.trade_to_position(*account, targets.copy(), index, *fill, *limits, *results, of_asset)
        traded[0, asset] = of_asset[0]
    return SizedTargets(traded[0], asked[0], _shortfalls(view, asked[0], traded[0], weights=trade.way == "weights"))


def _at_decision(view: View, targets: Array, rules: MarketRules, sizing: SizingRules) -> SizedTargets:
    market, costs = view.market, rules.costs
    rates = costs.rates(market.panel.periods_per_year)
    volume = market.volume[view.bar] if costs.impact > 0 else None
    tradable = market.tradable[view.bar]
    found = size_orders(
        view.cash, view.positions, targets, view.close, tradable, rates, rules.margin, sizing, volume=volume
    )
    worth = np.where(view.close > 0, view.close, 1.0)
    asked = targets * view.value[:, None] / worth - view.positions
    return SizedTargets(found.orders[0], asked[0], tuple(SHORTFALLS[reason] for reason in found.reasons[0]))


def _shortfalls(view: View, asked: Array, traded: Array, *, weights: bool) -> tuple[str, ...]:
    """Why less is traded than asked for; weights are exact after costs: of them only what is not traded at all is."""
    tradable = view.market.tradable[view.bar][0]
    dust = DUST * view.value[0] / np.where(view.close[0] > 0, view.close[0], 1.0)
    found = []
    for asset, (goal, done) in enumerate(zip(asked.tolist(), traded.tolist(), strict=True)):
        less = abs(goal) > dust[asset] and (done == 0 if weights else abs(done) < abs(goal) - dust[asset])
        if not less:
            found.append("")
        elif not tradable[asset]:
            found.append("not_tradable")
        else:
            found.append("not_held" if goal < 0 and not weights else "buying_power")
    return tuple(found)


def orders_of(
    view: View, decider: Decider, trace: list[Array], found: SizedTargets, run_id: str
) -> tuple[tuple[DomainOrder, ...], tuple[Skipped, ...]]:
    """The orders, reductions first, and what is not ordered or not in full.

    Args:
        view: The account.
        decider: What made the targets.
        trace: The targets after each stage, each with one row.
        found: Their units.
        run_id: The run whose policy decided: orders are named by it.
    """
    panel, held = view.market.panel, view.positions[0].tolist()
    stopped = decider.stopped(view)[0] if decider.stops_orders else np.zeros(len(held), np.bool_)
    made, skipped = [], []
    for asset, (symbol, units) in enumerate(zip(panel.assets, found.units.tolist(), strict=True)):
        if found.reasons[asset]:
            detail = f"{found.asked[asset]:.6g} units are asked for and {units:.6g} ordered"
            skipped.append(Skipped(symbol, found.reasons[asset], detail))
        if units == 0:
            continue
        reason = _reason(decider, trace, asset, stopped=bool(stopped[asset]))
        stop, take = _legs(view, decider, held[asset], units)
        target = float(np.broadcast_to(trace[-1][0], len(held))[asset])
        order = DomainOrder(
            client_id=client_order_id(run_id, panel.timestamps[view.bar[0]], symbol, target),
            symbol=symbol,
            side="buy" if units > 0 else "sell",
            quantity=abs(units),
            time_in_force="at_open" if view.market.fill.price == "open" else "at_close",
            stop_loss=stop,
            take_profit=take,
            reason=reason,
        )
        reduces = held[asset] != 0 and (units > 0) == (held[asset] < 0)
        # As `WeightToOrders` sends them: what reduces in the order of assets, then the most valuable first.
        made.append((not reduces, 0.0 if reduces else -abs(units) * float(view.close[0, asset]), asset, order))
    return tuple(order for *_, order in sorted(made, key=lambda one: one[:3])), tuple(skipped)


def _legs(view: View, decider: Decider, held: float, units: float) -> tuple[float | None, float | None]:
    """Stop and take-profit of an order that enters on a side that is not held; None where there are no brackets."""
    legs, after = decider.legs(view), held + units
    if legs is None or after == 0 or np.sign(after) == np.sign(held):
        return None, None
    return float(legs[0][0]), float(legs[1][0])


def _reason(decider: Decider, trace: list[Array], asset: int, *, stopped: bool) -> str:
    """Why an order is made: a stop, the turbulence gate, or the policy."""
    if decider.stage_names[-1] == GATE:
        before, after = (np.atleast_1d(row[0]) for row in trace[-2:])
        place = asset if len(after) > 1 else 0
        if not np.array_equal(before[place], after[place], equal_nan=True):
            return "gate"
    if stopped or decider.trade.way != "weights":
        return "stop" if stopped else "action"
    return "rebalance" if trace[-1][0][asset] != 0 else "exit"

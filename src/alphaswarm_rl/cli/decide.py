"""`rl decide`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.text import columns, pairs
from alphaswarm_rl.cli.verb import verb

if TYPE_CHECKING:
    from alphaswarm_rl.operations.decide import Decided


@verb("decide")
@click.argument("run_or_model", metavar="RUN|MODEL")
@click.option("--asof", metavar="DATE", help="Decide as of that date: bars that were not over then are not there.")
@click.option(
    "--bars",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="All bars so far, CSV or Parquet, read by the run's column rules; default the run's own data pipeline.",
)
@click.option("--positions", type=click.Path(path_type=Path), metavar="FILE", help="What is held, CSV or JSON.")
@click.option("--cash", type=float, metavar="X", help="The money; without --positions nothing else is held.")
@click.option("--start", metavar="DATE", help="First date that is traded; default as the policy's evaluation.")
@click.option("--unvalidated", is_flag=True, help="With model:ID: even when it did not pass its latest validation.")
@click.option("--deterministic/--no-deterministic", default=None, help="How it acts; default as the spec evaluates.")
def decide(session: Session, **chosen: Any) -> None:
    """Decide with a trained policy what to hold: target weights after every stage, and orders.

    RUN|MODEL is a run (its id, the beginning of it, or latest), model:ID, or model:NAME with an alias such as
    model:champion. No environment is built: the bars so far and the account give the targets by symbol after the
    action, each portfolio stage and the turbulence gate, then the orders, and what is skipped and why. Nothing is sent
    and nothing is stored.

    A file of positions is CSV with the columns symbol, quantity and, where it is known, average_cost, the row CASH
    being the money; or JSON.

    Args:
        session: This call.
        chosen: Fields of the request, which says what each means.
    """
    from alphaswarm_rl.operations.decide import DecideRequest, decide

    found = decide(session.settings, DecideRequest(**chosen, options=session.flags), caller=session.caller)
    session.answer(found, decision_lines(found))


def decision_lines(found: Decided) -> list[str]:
    """A decision as text."""
    facts = {
        "bar": found.bar,
        "known at": found.known_at,
        "equity": f"{found.equity:,.2f}",
        "cash": f"{found.cash:,.2f}",
        "history": found.history,
        "orders": "indicative" if found.indicative else "exact",
        "run": found.run_id,
        "model": found.model_id,
    }
    return [*pairs(facts), "", *target_lines(found), *_order_lines(found), *_skipped_lines(found)]


def target_lines(found: Decided) -> list[str]:
    """The targets by symbol after every stage; cash where they are weights."""
    form = ".2%" if found.targets == "weights" else ".6g"
    rows = [
        (
            asset.symbol,
            f"{asset.held:.2%}",
            *("-" if value is None else format(value, form) for value in asset.by_stage),
        )
        for asset in found.assets
    ]
    if found.cash_target is not None:
        blank = ("",) * (len(found.stages) - 1)
        rows.append(
            ("CASH", f"{1.0 - sum(asset.held for asset in found.assets):.2%}", *blank, f"{found.cash_target:.2%}")
        )
    return columns(("SYMBOL", "HELD", *(f"{stage.upper()}" for stage in found.stages)), rows)


def _order_lines(found: Decided) -> list[str]:
    if not found.orders:
        return ["", "No orders."]
    rows = [
        (
            order.symbol,
            order.side,
            f"{order.quantity:.6f}".rstrip("0").rstrip("."),
            order.type,
            order.time_in_force,
            order.stop_loss,
            order.take_profit,
            order.reason,
        )
        for order in found.orders
    ]
    heading = ("ORDER", "SIDE", "QUANTITY", "TYPE", "WHEN", "STOP", "TAKE PROFIT", "REASON")
    return ["", *columns(heading, rows)]


def _skipped_lines(found: Decided) -> list[str]:
    if not found.skipped:
        return []
    rows = [(each.symbol, each.reason, each.detail) for each in found.skipped]
    return ["", *columns(("SKIPPED", "WHY", ""), rows)]

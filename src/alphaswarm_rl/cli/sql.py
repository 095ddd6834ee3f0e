"""`rl sql`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.text import columns
from alphaswarm_rl.cli.verb import verb

if TYPE_CHECKING:
    from collections.abc import Sequence


@verb("sql")
@click.argument("statement")
@click.option(
    "--limit", type=click.IntRange(min=1), default=1000, show_default=True, metavar="N", help="Show at most N rows."
)
def sql(session: Session, statement: str, limit: int) -> None:
    """Ask recorded steps, runs and models in SQL.

    STATEMENT is one SELECT, DESCRIBE, SUMMARIZE, SHOW or EXPLAIN of DuckDB's. The views rl_trajectories,
    rl_equity_curves, rl_action_logs, rl_reward_decomposition, rl_positions and rl_fills hold all runs;
    rl_equity_curves_run_1a2b3c4d5e6f holds the run whose id begins with those digits, and
    alphaswarm_silver_rl_equity_curves."SPEC_HASH" the runs of a spec.
    Beside them are runs, versions, evaluations and events of the ledger, and models and promotions of the registry.

    Args:
        session: This call.
        statement: The query.
        limit: At most that many rows are shown.
    """
    from alphaswarm_rl.operations.sql import Query, run_query

    result = run_query(session.settings, Query(statement, limit), caller=session.caller)
    if result.more:
        session.notice(f"there are more rows than the {limit} shown here: --limit")
    session.answer(result, _lines(result.columns, result.rows))


def _lines(names: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    if names == ["explain_key", "explain_value"]:
        return [line for _, plan in rows for line in str(plan).rstrip("\n").split("\n")]
    return columns(names, rows)

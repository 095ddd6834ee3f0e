"""`rl sql`."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click

from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.text import columns
from alphaswarm_rl.cli.verb import verb
from alphaswarm_rl.core.errors import DataError, LakeError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_RUN_VIEW = re.compile(
    r"\brl_(?:trajectories|equity_curves|action_logs|reward_decomposition)_run_([0-9a-f]{12})\b", re.IGNORECASE
)
_EXPLAIN = re.compile(r"\s*EXPLAIN\s+(ANALYZE\s+)?", re.IGNORECASE)
_VIEWS = (
    "Views: rl_trajectories, rl_equity_curves, rl_action_logs, rl_reward_decomposition; of one run "
    'rl_<kind>_run_<first 12 digits of its id>; of one spec alphaswarm_silver_rl_<kind>."<spec hash>". '
    "Their columns: DESCRIBE rl_trajectories."
)


@verb("sql")
@click.argument("statement")
@click.option(
    "--limit", type=click.IntRange(min=1), default=1000, show_default=True, metavar="N", help="Show at most N rows."
)
def sql(session: Session, statement: str, limit: int) -> None:
    """Ask the recorded steps of all runs in SQL.

    STATEMENT is one SELECT, DESCRIBE, SUMMARIZE, SHOW or EXPLAIN of DuckDB's. The views rl_trajectories,
    rl_equity_curves, rl_action_logs and rl_reward_decomposition hold all runs; rl_equity_curves_run_1a2b3c4d5e6f holds
    the run whose id begins with those digits, and alphaswarm_silver_rl_equity_curves."SPEC_HASH" the runs of a spec.

    Args:
        session: This call.
        statement: The query.
        limit: At most that many rows are shown.
    """
    import duckdb

    from alphaswarm_rl.lake.catalog import Lake
    from alphaswarm_rl.lake.views import ensure_duckdb_views

    # No extension is ever fetched or loaded.
    with duckdb.connect(
        config={"autoinstall_known_extensions": False, "autoload_known_extensions": False}
    ) as connection:
        try:
            _refuse_writing(connection, statement)
            ensure_duckdb_views(connection, session.settings)
            _register_named_runs(session, connection, statement)
            names, rows = fetch(connection, statement, limit + 1)
        except duckdb.IOException as error:
            reason = _first_line(error)
            ours = Lake(session.settings).warehouse.removeprefix("file://")
            if "No files found" in reason and ours not in reason:  # the statement names a file itself
                raise DataError("the SQL statement", reason, _VIEWS) from error
            raise LakeError(
                "the recorded steps", reason, "See which files are damaged with: rl lake verify."
            ) from error
        except duckdb.Error as error:
            raise DataError("the SQL statement", _first_line(error), _VIEWS) from error
    if len(rows) > limit:
        session.notice(f"there are more rows than the {limit} shown here: --limit")
    session.answer({"columns": names, "rows": rows[:limit]}, _lines(names, rows[:limit]))


def _lines(names: list[str], rows: list[list[Any]]) -> list[str]:
    if names == ["explain_key", "explain_value"]:
        return [line for _, plan in rows for line in plan.splitlines()]
    return columns(names, rows)


def fetch(connection: DuckDBPyConnection, query: str, most: int) -> tuple[list[str], list[list[Any]]]:
    """The names of a query's columns and its rows, at most that many, as values that JSON can hold."""
    # By way of Arrow: DuckDB's own rows need one more library for times.
    relation = connection.sql(query)
    reader = relation.limit(most).to_arrow_reader(10_000)
    rows: list[list[Any]] = []
    for batch in reader:
        values = [column.to_pylist() for column in batch.columns]
        rows += [[_plain(value) for value in row] for row in zip(*values, strict=True)]
    return list(reader.schema.names), rows


def _refuse_writing(connection: DuckDBPyConnection, statement: str) -> None:
    import duckdb

    kinds = _kinds(connection, statement)
    if kinds == ["EXPLAIN"]:
        # EXPLAIN ANALYZE runs what it explains.
        try:
            kinds = _kinds(connection, _EXPLAIN.sub("", statement, count=1))
        except duckdb.ParserException:
            kinds = ["UNKNOWN"]
    if kinds == ["MULTI"]:
        why = "a PIVOT without values takes several statements"
        raise DataError("the SQL statement", why, "Name its values: PIVOT ... ON column IN (...).")
    if kinds != ["SELECT"]:
        why = "rl sql only reads" if len(kinds) == 1 else f"rl sql takes one statement, not {len(kinds)}"
        raise DataError("the SQL statement", why, f"Give one SELECT. {_VIEWS}")


def _kinds(connection: DuckDBPyConnection, statements: str) -> list[str]:
    return [statement.type.name for statement in connection.extract_statements(statements)]


def _register_named_runs(session: Session, connection: DuckDBPyConnection, statement: str) -> None:
    from alphaswarm_rl.lake.views import register_run_views
    from alphaswarm_rl.ledger import Ledger

    named = {digits.lower() for digits in _RUN_VIEW.findall(statement)}
    if named:
        with Ledger.open(session.settings) as ledger:
            run_ids = [ledger.run(f"{digits[:8]}-{digits[8:]}").id for digits in sorted(named)]
        for run_id in run_ids:
            register_run_views(run_id, connection, session.settings)


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, date | time | timedelta) and not isinstance(value, datetime):
        return str(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    return value


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(". ")

"""`rl runs equity`, `rewards`, `actions` and `trajectories`: a run's recorded steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.text import columns
from alphaswarm_rl.cli.verb import verb
from alphaswarm_rl.core.errors import LakeError

if TYPE_CHECKING:
    from alphaswarm_rl.lake.catalog import Lake
    from alphaswarm_rl.lake.tables import Kind
    from alphaswarm_rl.ledger import RunRow

_PHASES = ("train", "validation", "evaluate", "replay", "paper")
#: The same in every row of a run.
_OF_THE_RUN = ("run_id", "spec_hash")
#: Why a run that was recorded may have no rows of a kind.
_NONE_OF_A_KIND = {
    "equity_curves": "the environment has no account",
    "action_logs": "its actions have no components",
    "reward_decomposition": "the environment's reward does not consist of terms",
}


def _command(name: str, kind: Kind, help_text: str) -> click.Command:
    def show(
        session: Session, run: str, phase: str | None, episode: int | None, env_idx: int | None, limit: int
    ) -> None:
        _show(session, kind, run, {"phase": phase, "episode": episode, "env_idx": env_idx}, limit)

    show.__doc__ = help_text
    decorators = [
        click.argument("run"),
        click.option("--phase", type=click.Choice(_PHASES), help="Only steps of that phase."),
        click.option("--episode", type=click.IntRange(min=0), metavar="N", help="Only that episode, counted from 0."),
        click.option(
            "--env-idx", type=click.IntRange(min=0), metavar="I", help="Only that environment, counted from 0."
        ),
        click.option(
            "--limit",
            type=click.IntRange(min=1),
            default=1000,
            show_default=True,
            metavar="N",
            help="Show at most N rows.",
        ),
    ]
    for decorate in reversed(decorators):
        show = decorate(show)
    return verb(f"runs.{name}")(show)


equity = _command("equity", "equity_curves", "Show a run's account, step by step: value, drawdown, cash.")
rewards = _command("rewards", "reward_decomposition", "Show what each term gave to a run's rewards, step by step.")
actions = _command("actions", "action_logs", "Show a run's actions, step by step, one row per component.")
trajectories = _command("trajectories", "trajectories", "Show a run's steps: action, reward, and how each ended.")


def _show(session: Session, kind: Kind, run: str, chosen: dict[str, Any], limit: int) -> None:
    import duckdb

    from alphaswarm_rl.cli.sql import fetch
    from alphaswarm_rl.lake.catalog import Lake
    from alphaswarm_rl.lake.export import ORDER
    from alphaswarm_rl.lake.segments import spooled
    from alphaswarm_rl.lake.views import create_run_views, quoted
    from alphaswarm_rl.ledger import Ledger

    with Ledger.open(session.settings) as ledger:
        row = ledger.run(run)
    wanted = {name: value for name, value in chosen.items() if value is not None}
    with Lake(session.settings) as lake, duckdb.connect() as connection:
        # Choices of a list and whole numbers: nothing in them that SQL could take for its own.
        conditions = " AND ".join(f"{name} = {value!r}" for name, value in wanted.items())
        try:
            view = quoted(create_run_views(lake, row.id, connection, [kind])[kind])
            query = f"SELECT * EXCLUDE ({', '.join(_OF_THE_RUN)}) FROM {view}"  # noqa: S608
            query += f" WHERE {conditions}" if conditions else ""
            names, rows = fetch(connection, f"{query} ORDER BY {ORDER[kind]}", limit + 1)
        except duckdb.Error as error:
            raise LakeError(
                f"the steps of run {row.id}",
                str(error).partition("\n")[0],
                "See which files are damaged with: rl lake verify.",
            ) from error
        undelivered = len(spooled(lake.spool, row.id))
        why = None if rows else _why_none(lake, row, kind, wanted, undelivered)
    if undelivered:
        session.notice(f"{undelivered} segments are not in the tables yet: rl lake commit")
    if len(rows) > limit:
        session.notice(f"there are more rows than the {limit} shown here: --limit")
    shown = [dict(zip(names, values, strict=True)) for values in rows[:limit]]
    document = {"run_id": row.id, "rows": shown, "more": len(rows) > limit, "undelivered": undelivered}
    session.answer(document, [f"there are no such rows: {why}"] if why else _table(names, rows[:limit]))


def _table(names: list[str], rows: list[list[Any]]) -> list[str]:
    """The rows; columns that are null in all of them are left out."""
    filled = [index for index in range(len(names)) if any(row[index] is not None for row in rows)]
    titles = [names[index].upper().replace("_", " ") for index in filled]
    return columns(titles, [[row[index] for index in filled] for row in rows])


def _why_none(lake: Lake, row: RunRow, kind: Kind, wanted: dict[str, Any], undelivered: int) -> str:
    """Why a run has no rows of a kind, as far as that can be known."""
    from alphaswarm_rl.lake.views import has_rows

    if row.removed_at is not None:
        return "the run was removed"
    if wanted and has_rows(lake, kind, row.id):
        return f"the run has others, but none of {', '.join(f'{name} {value}' for name, value in wanted.items())}"
    if kind in _NONE_OF_A_KIND and has_rows(lake, "trajectories", row.id):
        return _NONE_OF_A_KIND[kind]
    if undelivered:
        return "they are not in the tables yet"
    if row.recording.get("store") == "memory":
        return "they were kept in memory and ended with the run"
    if row.status in ("pending", "running"):
        return "the run has delivered none yet"
    return "nothing of the run was recorded, or its tables have other names now"

"""`rl runs`: looking at runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from alphaswarm_rl.cli.runs_events import events
from alphaswarm_rl.cli.runs_export import export
from alphaswarm_rl.cli.runs_removal import gc, rm
from alphaswarm_rl.cli.runs_steps import actions, equity, rewards, trajectories
from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.text import columns, pairs, shown
from alphaswarm_rl.cli.verb import verb
from alphaswarm_rl.operations.run_summary import PORTFOLIO_METRICS
from alphaswarm_rl.operations.run_summary import window_text as dates

if TYPE_CHECKING:
    from alphaswarm_rl.ledger import RunRow

#: Columns that are shown in their own way, or say nothing to people.
_ELSEWHERE = (
    "result_summary",
    "overrides",
    "notices",
    "code_fingerprint",
    "machine",
    "process_start",
    "spec_id",
    "window_end",
)
#: What a run's own window is called; what it was judged on stands beside the metrics.
_OWN_WINDOW = {"train": "training_window", "evaluate": "evaluation_window", "replay": "replay_window"}

#: Columns of the table of evaluations, by their titles; those of accounts only where there are any.
_EVALUATIONS = {
    "PHASE": "phase",
    "STEPS": "timesteps",
    "EPISODES": "episodes",
    "MEAN REWARD": "mean_reward",
    "STD": "std_reward",
    "MEAN LENGTH": "mean_length",
    "IN SAMPLE": "in_sample",
}
#: Columns of the list of runs that are left out where no run has them.
_WHERE_ANY = ("REWARD", "WINDOW", "RETURN", "SHARPE", "NAME")
_SHORT_ID = 8
_DAY = len("2024-01-31")
_IN_SAMPLE = "*"
_ACCOUNTS = {"TOTAL RETURN": "total_return", "SHARPE": "sharpe", "MAX DRAWDOWN": "max_drawdown"}


@click.group()
def runs() -> None:
    """List, show, follow, export and remove runs."""


runs.add_command(events)
runs.add_command(equity)
runs.add_command(rewards)
runs.add_command(actions)
runs.add_command(trajectories)
runs.add_command(export)
runs.add_command(rm)
runs.add_command(gc)


@verb("runs.list", group=runs)
@click.option("--status", metavar="STATUS", help="Only runs in that state, such as completed or interrupted.")
@click.option("--target", metavar="VERB", help="Only runs of that verb: train, evaluate, replay.")
@click.option("--slug", metavar="SLUG", help="Only runs of that spec.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="At most that many.")
@click.option("--removed", is_flag=True, help="Those whose files were removed too.")
def list_runs(
    session: Session, status: str | None, target: str | None, slug: str | None, limit: int, removed: bool
) -> None:
    """List runs, the newest first.

    Args:
        session: This call.
        status: Only runs in that state.
        target: Only runs of that verb.
        slug: Only runs of that spec.
        limit: At most that many.
        removed: Whether removed runs are listed too.
    """
    from alphaswarm_rl.ledger import Ledger

    with Ledger.open(session.settings) as ledger:
        found = ledger.runs(status, target, slug, limit, include_removed=removed)
    session.answer([row.as_dict() for row in found], _table(found) if found else ["there are no such runs"])


@verb("runs.show", group=runs)
@click.argument("run")
def show(session: Session, run: str) -> None:
    """Show everything about one run.

    Args:
        session: This call.
        run: The run's id, the beginning of it, or latest.
    """
    from alphaswarm_rl.inference.checkpoints import CheckpointStore
    from alphaswarm_rl.ledger import Ledger

    settings = session.settings
    with Ledger.open(settings) as ledger:
        row = ledger.run(run)
        version = ledger.version(row.version_id)
        evaluations = ledger.evaluations(row.id)
        children = ledger.children(row.id)
    kept = CheckpointStore(settings.models_path).steps(row.id)
    document = {
        "run": row.as_dict(),
        "spec": {
            "slug": row.family,
            "version": version.version,
            "version_id": version.id,
            "spec_hash": version.spec_hash,
        },
        "evaluations": [evaluation.as_dict() for evaluation in evaluations],
        "checkpoints": [{"timesteps": step, "path": path} for step, path in kept.items()],
        "children": [child.id for child in children],
    }
    session.answer(document, _lines(row, document, evaluations))


def _table(found: list[RunRow]) -> list[str]:
    """The runs, one short line each; columns that no run fills are left out."""
    rows = [
        {
            "RUN": row.id[:_SHORT_ID],
            "SPEC": row.family,
            "TARGET": row.target,
            "STATUS": _status(row),
            "SEED": row.seed,
            "STEPS": row.timesteps,
            "REWARD": _number(row.mean_reward, ".4g"),
            "WINDOW": _short_window(row),
            "RETURN": _number(row.total_return, ".4f"),
            "SHARPE": _number(row.sharpe, ".2f"),
            "STARTED": None if row.started_at is None else f"{row.started_at:%m-%d %H:%M}",
            "NAME": row.name,
        }
        for row in found
    ]
    titles = [title for title in rows[0] if title not in _WHERE_ANY or any(row[title] is not None for row in rows)]
    lines = columns(titles, [[row[title] for title in titles] for row in rows])
    in_sample = any((row["WINDOW"] or "").endswith(_IN_SAMPLE) for row in rows)
    return [*lines, "", f"{_IN_SAMPLE} in sample: bars of training or validation are in it"] if in_sample else lines


def _short_window(row: RunRow) -> str | None:
    """The days that were judged, with a mark where they are in sample."""
    start, end = ((row.result_summary or {}).get(name) for name in ("window_start", "window_end"))
    if start is None and end is None:
        return None
    days = "..".join("" if date is None else date[:_DAY] for date in (start, end))
    return f"{days}{_IN_SAMPLE if row.in_sample else ''}"


def _number(value: float | None, form: str) -> str | None:
    return None if value is None else format(value, form)


def _lines(row: RunRow, document: dict[str, Any], evaluations: list[Any]) -> list[str]:
    spec = document["spec"]
    known = {}
    for name, value in vars(row).items():
        if name == "window_start":
            known[_OWN_WINDOW.get(row.target, "window")] = dates(vars(row))
            known["judged_on"] = dates(row.result_summary or {})
        elif name not in _ELSEWHERE:
            known[name] = value
    account = {name: row.result_summary[name] for name in PORTFOLIO_METRICS if name in (row.result_summary or {})}
    known = {name: value for name, value in known.items() if name not in account}
    title = f"{spec['slug']} version {spec['version']}"
    lines = pairs({"spec": title, **known, **account, "children": document["children"]})
    lines += [f"override  {path} = {shown(item['value'])} ({item['source']})" for path, item in row.overrides.items()]
    lines += [f"notice  {notice}" for notice in row.notices]
    if evaluations:
        lines += ["", "evaluations:"]
        shown_columns = dict(_EVALUATIONS)
        if any(item.total_return is not None for item in evaluations):
            shown_columns |= _ACCOUNTS
        titles = tuple(shown_columns)
        table = [tuple(getattr(item, name) for name in shown_columns.values()) for item in evaluations]
        windows = [dates(item.metrics) for item in evaluations]
        if any(windows):
            titles = (titles[0], "WINDOW", *titles[1:])
            table = [(row[0], window, *row[1:]) for row, window in zip(table, windows, strict=True)]
        lines += columns(titles, table)
    if document["checkpoints"]:
        lines += ["", "checkpoints kept:"]
        lines += columns(("STEP", "FOLDER"), [(item["timesteps"], item["path"]) for item in document["checkpoints"]])
    return lines


def _status(row: RunRow) -> str:
    return row.status if row.removed_at is None else f"{row.status} (removed)"

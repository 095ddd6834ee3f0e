"""`rl runs`: looking at runs, and removing their files."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from alphaswarm_rl.cli.durations import time_option
from alphaswarm_rl.cli.output import ask
from alphaswarm_rl.cli.plot import plot_lines
from alphaswarm_rl.cli.run_tables import curve_lines, event_line, holding_lines, removal_lines, run_lines, run_table
from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.text import as_json_line, columns
from alphaswarm_rl.cli.verb import verb
from alphaswarm_rl.core.wording import size

if TYPE_CHECKING:
    from alphaswarm_rl.operations.run_steps import Steps

_PHASES = ("train", "validation", "evaluate", "replay", "backtest", "paper")


def _names(context: click.Context, option: click.Parameter, text: str | None) -> tuple[str, ...]:
    """The names of a list with commas."""
    return () if text is None else tuple(name.strip() for name in text.split(","))


@click.group()
def runs() -> None:
    """List, show, follow, export and remove runs."""


@verb("runs.list", group=runs)
@click.option("--status", metavar="STATUS", help="Only runs in that state, such as completed or interrupted.")
@click.option("--target", metavar="VERB", help="Only runs of that verb: train, evaluate, replay.")
@click.option("--slug", metavar="SLUG", help="Only runs of that spec.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="At most that many.")
@click.option("--removed", is_flag=True, help="Those whose files were removed too.")
@click.option(
    "--where", multiple=True, metavar="CONDITION", help="Only runs of which this holds: 'sharpe > 1 and agent = ppo'."
)
@click.option("--sort", metavar="[-]COLUMN", help="By that column: largest, newest, A first; - turns it round.")
@click.option("--columns", callback=_names, metavar="A,B,...", help="Only these columns.")
def list_runs(session: Session, **chosen: Any) -> None:
    """List runs, the newest first.

    --where and --sort take any column of a run that is one value, what its evaluation measured (sharpe, sortino, cost
    and so on) and agent, version, judged_start and judged_end; a wrong name is answered with all of them. Operators are
    = != < <= > >= and, for text, ~ (contains). null is a value; text with blanks is quoted. Given again, all must hold.

    Args:
        session: This call.
        chosen: Fields of the request, which says what each means.
    """
    from alphaswarm_rl.operations.runs import ListRuns, list_runs

    found = list_runs(session.settings, ListRuns(**chosen))
    session.answer(found, run_table(found.runs) if found.runs else ["there are no such runs"])


@verb("runs.show", group=runs)
@click.argument("run")
def show(session: Session, run: str) -> None:
    """Show everything about one run.

    Args:
        session: This call.
        run: The run's id, the beginning of it, or latest.
    """
    from alphaswarm_rl.operations.operation import NamedRun
    from alphaswarm_rl.operations.runs import show_run

    result = show_run(session.settings, NamedRun(run))
    session.answer(result, run_lines(result))


@verb("runs.events", group=runs)
@click.argument("run")
@click.option("--after", type=click.IntRange(min=0), default=0, metavar="SEQ", help="Only events behind that number.")
@click.option("--follow", is_flag=True, help="Go on until the run ends.")
def events(session: Session, run: str, after: int, follow: bool) -> None:
    """Show a run's events in their order.

    Args:
        session: This call.
        run: The run's id, the beginning of it, or latest.
        after: Only events behind that number.
        follow: Whether to wait for more until the run ends.
    """
    from alphaswarm_rl.operations.runs import RunEvents, run_events

    found = run_events(session.settings, RunEvents(run, after, follow))
    if not session.as_json:
        for event in found:
            session.say(event_line(event))
        return
    # One document, and yet every event is there as soon as it happened.
    session.write("[", newline=False)
    for number, event in enumerate(found):
        session.write(f"{',' if number else ''}\n  {as_json_line(event)}", newline=False)
    session.write("\n]")


@verb("runs.curve", group=runs)
@click.argument("run")
@click.option(
    "--points",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    metavar="N",
    help="Show at most N points, evenly spread; the last one is always there.",
)
def curve(session: Session, run: str, points: int) -> None:
    """Show a training's curve: reward, rate, loss, entropy and explained variance by transitions.

    Args:
        session: This call.
        run: The run's id, the beginning of it, or latest.
        points: At most that many points.
    """
    from alphaswarm_rl.operations.curves import CurveQuery, run_curve

    result = run_curve(session.settings, CurveQuery(run, points))
    session.answer(result, curve_lines(result))


def _choosing_steps(function: Callable[..., None]) -> Callable[..., None]:
    """Adds the run and the options that choose among its steps."""
    whole = click.IntRange(min=0)
    for decorate in (
        click.option(
            "--limit",
            type=click.IntRange(min=1),
            default=1000,
            show_default=True,
            metavar="N",
            help="Show at most N rows.",
        ),
        click.option("--env-idx", type=whole, metavar="I", help="Only that environment, counted from 0."),
        click.option("--episode", type=whole, metavar="N", help="Only that episode, counted from 0."),
        click.option("--phase", type=click.Choice(_PHASES), help="Only steps of that phase."),
        click.argument("run"),
    ):
        function = decorate(function)
    return function


@verb("runs.equity", group=runs)
@_choosing_steps
@click.option("--plot", is_flag=True, help="Draw the value and the drawdown of one episode, instead of a table.")
def equity(session: Session, **chosen: Any) -> None:
    """Show a run's account, step by step: value, drawdown, cash.

    --plot draws the episode that --phase, --episode and --env-idx choose; without them the first one that judged the
    run.
    """
    from alphaswarm_rl.operations.run_steps import EquityQuery, equity

    found = equity(session.settings, EquityQuery(**chosen))
    if found.curve is None or session.as_json:
        _show_steps(session, found)
    else:
        session.answer(found, plot_lines(found.curve, session.out))


@verb("runs.rewards", group=runs)
@_choosing_steps
def rewards(session: Session, **chosen: Any) -> None:
    """Show what each term gave to a run's rewards, step by step."""
    from alphaswarm_rl.operations.run_steps import StepQuery, rewards

    _show_steps(session, rewards(session.settings, StepQuery(**chosen)))


@verb("runs.actions", group=runs)
@_choosing_steps
def actions(session: Session, **chosen: Any) -> None:
    """Show a run's actions, step by step, one row per component."""
    from alphaswarm_rl.operations.run_steps import StepQuery, actions

    _show_steps(session, actions(session.settings, StepQuery(**chosen)))


@verb("runs.trajectories", group=runs)
@_choosing_steps
def trajectories(session: Session, **chosen: Any) -> None:
    """Show a run's steps: action, reward, and how each ended."""
    from alphaswarm_rl.operations.run_steps import StepQuery, trajectories

    _show_steps(session, trajectories(session.settings, StepQuery(**chosen)))


_ASOF = click.option("--asof", metavar="DATE", help="As of that day, such as 2020-03-23, or of a moment, in ISO form.")


@verb("runs.positions", group=runs)
@_ASOF
@_choosing_steps
def positions(session: Session, **chosen: Any) -> None:
    """Show a run's positions, step by step, with the targets that they came from.

    As of a day they are those of each episode's last step until then.
    """
    from alphaswarm_rl.operations.run_steps import TradesQuery, positions

    _show_steps(session, positions(session.settings, TradesQuery(**chosen)))


@verb("runs.fills", group=runs)
@_ASOF
@_choosing_steps
def fills(session: Session, **chosen: Any) -> None:
    """Show a run's fills, with their costs and reasons.

    As of a day they are those until then, by their bars; of more than --limit the newest.
    """
    from alphaswarm_rl.operations.run_steps import TradesQuery, fills

    _show_steps(session, fills(session.settings, TradesQuery(**chosen)))


@verb("runs.holdings", group=runs)
@_ASOF
@click.option("--env-idx", type=click.IntRange(min=0), metavar="I", help="That environment, counted from 0.")
@click.option("--episode", type=click.IntRange(min=0), metavar="N", help="That episode; otherwise the first.")
@click.option("--phase", type=click.Choice(_PHASES), help="That phase; otherwise the evaluation, where there is one.")
@click.argument("run")
def holdings(session: Session, **chosen: Any) -> None:
    """Show what a run held on a day, why, and at what cost; otherwise at the end of the episode.

    Args:
        session: This call.
        chosen: Fields of the request, which says what each means.
    """
    from alphaswarm_rl.operations.run_steps import HoldingsQuery, holdings

    result = holdings(session.settings, HoldingsQuery(**chosen))
    if result.undelivered:
        session.notice(f"{result.undelivered} segments are not in the tables yet: rl lake commit")
    session.answer(result, holding_lines(result))


@verb("runs.export", group=runs)
@click.argument("run")
@click.option("--out", required=True, type=click.Path(path_type=Path), metavar="DIR", help="A new or empty folder.")
def export(session: Session, run: str, out: Path) -> None:
    """Write everything the ledger knows of a run into a folder.

    The files are run.json, spec.yaml, events.jsonl, evaluations.json and episodes.csv.

    Args:
        session: This call.
        run: The run's id, the beginning of it, or latest.
        out: The folder.
    """
    from alphaswarm_rl.operations.runs import ExportRun, export_run

    result = export_run(session.settings, ExportRun(run, out))
    session.answer(result, [str(out / name) for name in result.files])


@verb("runs.rm", group=runs)
@click.argument("runs", nargs=-1)
@click.option("--where", multiple=True, metavar="COND", help="Runs that meet a condition, as in: rl runs list --where.")
@time_option("--older-than", None, "Runs that began longer ago, such as 30d.")
@click.option("--keep-best", type=click.IntRange(min=1), metavar="N", help="All but the N best of each spec.")
@click.option("--now", is_flag=True, help="Free files of removed runs at once; old snapshots are forgotten for it.")
@click.option("--dry-run", is_flag=True, help="Only say what would go, and what would stay and why.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--force", is_flag=True, help="Even when another run stands on its checkpoint, or a model is deployed.")
def rm(session: Session, *, yes: bool, **chosen: Any) -> None:
    """Remove the files and recorded steps of runs; their rows stay, marked removed.

    RUNS are named by their ids, the beginnings of them, or latest; or conditions choose them, which must all hold.
    Their steps leave their tables at once, and the disk with rl lake expire and rl lake sweep, or at once with --now:
    those of runs that were removed before, too.

    A live run is refused, and so is one whose checkpoint another run was evaluated or replayed from, or one with a
    model that is in production or was before the present one, is aliased, protected, or the parent of another; of many
    those are kept, and said. Models of removed runs are archived. --keep-best compares mean rewards of runs that were
    judged on the same dates, data and number of episodes.

    Args:
        session: This call.
        yes: Whether nobody is asked.
        chosen: Fields of the request, which says what each means.
    """
    from alphaswarm_rl.operations.run_removals import RemoveRuns, remove_runs

    result = remove_runs(session.settings, RemoveRuns(**chosen), confirm=partial(confirm, yes=yes))
    session.answer(result, removal_lines(result))


@verb("runs.gc", group=runs)
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def gc(session: Session, dry_run: bool, yes: bool) -> None:
    """Remove half-written checkpoints, those of removed and unknown runs, and recorded steps of removed ones.

    Checkpoints stay of models that are in production or were before the present one, are aliased, protected, or the
    parent of one that stays; other models of theirs are archived.

    Args:
        session: This call.
        dry_run: Whether nothing is deleted.
        yes: Whether nobody is asked.
    """
    from alphaswarm_rl.operations.run_removal import CollectGarbage, collect_garbage

    result = collect_garbage(session.settings, CollectGarbage(dry_run), confirm=partial(confirm, yes=yes))
    lines = columns(("FOLDER", "WHY", "SIZE"), [(item.path, item.why, size(item.bytes)) for item in result.folders])
    verdict = f"{'would free' if dry_run else 'freed'} {size(result.bytes)}"
    steps = [f"{'would drop' if dry_run else 'dropped'} what was left of {run_id}" for run_id in result.runs]
    session.answer(result, [*(lines if result.folders else []), *steps, verdict])


def confirm(question: str, *, yes: bool) -> bool:
    """Asks whoever is at the terminal, and ends the command where the answer is no; False: nobody can be asked."""
    return yes or (sys.stdin.isatty() and ask(question))


def _show_steps(session: Session, result: Steps) -> None:
    if result.undelivered:
        session.notice(f"{result.undelivered} segments are not in the tables yet: rl lake commit")
    if result.more:
        session.notice(f"there are more rows than the {len(result.rows)} shown here: --limit")
    none = f"there are no such rows: {result.why_empty}"
    session.answer(result, [none] if result.why_empty else _step_table(result.columns, result.rows))


def _step_table(names: Sequence[str], rows: Sequence[Mapping[str, object]]) -> list[str]:
    """The rows; columns that are null in all of them are left out."""
    filled = [name for name in names if any(row[name] is not None for row in rows)]
    return columns(
        [name.upper().replace("_", " ") for name in filled], [[row[name] for name in filled] for row in rows]
    )

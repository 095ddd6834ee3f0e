"""`rl store`: what runs tell their trackers."""

from __future__ import annotations

import click

from alphaswarm_rl.cli.reporting import BROKEN
from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.text import columns
from alphaswarm_rl.cli.verb import verb


@click.group()
def store() -> None:
    """Look at what waits for the trackers of runs, and deliver it."""


@verb("store.status", group=store)
@click.argument("run", nargs=-1)
def status(session: Session, run: tuple[str, ...]) -> None:
    """Show what trackers do not have yet, and why.

    Without RUN, of all runs to which something is left to deliver, or whose tracker refused something.

    Args:
        session: This call.
        run: The runs: ids, beginnings of them, or latest.
    """
    from alphaswarm_rl.operations.operation import NamedRuns
    from alphaswarm_rl.operations.store import store_status

    result = store_status(session.settings, NamedRuns(run))
    rows = [(item.journal, item.status, item.why) for item in result.journals]
    lines = columns(
        ("RUN", "STATUS", "TRACKER", "EXPERIMENT", "WAITING", "REFUSED", "WHY"),
        [(j.run_id, state, j.place, j.experiment, j.waiting, len(j.set_aside), why) for j, state, why in rows],
    )
    nothing = "trackers have everything" if result.tracked else "no run is tracked yet"
    session.answer(result, lines if result.journals else [nothing])


@verb("store.sync", group=store)
@click.argument("run", nargs=-1)
@click.option("--to", metavar="URI", help="Deliver to this address from now on, from the beginning; needs RUN.")
def sync(session: Session, run: tuple[str, ...], to: str | None) -> None:
    """Deliver to trackers what they do not have yet.

    Without RUN, of all runs. Ends with exit code 1 when something could not be delivered; it is kept.

    Args:
        session: This call.
        run: The runs: ids, beginnings of them, or latest.
        to: Another address of the tracker.
    """
    from alphaswarm_rl.operations.store import SyncStore, sync_store

    result = sync_store(session.settings, SyncStore(run, to))
    done = f"delivered {result.delivered} records of {len(result.runs)} runs"
    session.answer(result, [done, *result.problems])
    if result.problems:
        raise click.exceptions.Exit(BROKEN)

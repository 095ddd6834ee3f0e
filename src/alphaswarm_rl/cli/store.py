"""`rl store`: what runs tell their trackers."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from alphaswarm_rl.cli.reporting import BROKEN
from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.text import columns
from alphaswarm_rl.cli.verb import verb
from alphaswarm_rl.core.errors import OptionError, TrackingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alphaswarm_rl.ledger import Ledger
    from alphaswarm_rl.tracking.waiting import Standing

_LIVE = ("pending", "running")


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
    from alphaswarm_rl.ledger import Ledger
    from alphaswarm_rl.tracking.listener import journal_folder

    folder = journal_folder(session.settings)
    with Ledger.open(session.settings) as ledger:
        found = _standings(folder, [ledger.run(ref).id for ref in run])
        rows = {row.id: row.status for row in ledger.runs(limit=None, include_removed=True)}
    shown = found if run else [its for its in found if its.waiting or its.set_aside]
    lines = columns(
        ("RUN", "STATUS", "TRACKER", "EXPERIMENT", "WAITING", "REFUSED", "WHY"),
        [
            (its.run_id, rows.get(its.run_id), its.place, its.experiment, its.waiting, len(its.set_aside), _why(its))
            for its in shown
        ],
    )
    nothing = "trackers have everything" if found else "no run is tracked yet"
    document = [{**vars(its), "status": rows.get(its.run_id)} for its in shown]
    session.answer(document, lines if shown else [nothing])


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
    from alphaswarm_rl.core.run_listener import RunFacts
    from alphaswarm_rl.ledger import Ledger
    from alphaswarm_rl.tracking.courier import deliver_now
    from alphaswarm_rl.tracking.listener import delivery_columns, journal_folder
    from alphaswarm_rl.tracking.waiting import end_for, journals, move

    if to is not None and not run:
        raise OptionError("option --to", "it moves single runs, and none is named", "Name them: rl store sync RUN.")
    settings = session.settings
    folder = journal_folder(settings)
    with Ledger.open(settings) as ledger:
        named = [ledger.run(ref).id for ref in run]
        known = {row.id for row in ledger.runs(limit=None, include_removed=True)}
        for run_id in named if to is not None else ():
            move(folder, run_id, str(to))
        for run_id in known & set(named or journals(folder)):
            # A run whose process was killed could not say its end: the ledger knows it.
            end_for(folder, run_id, partial(_ended, ledger, run_id))
        before = {its.run_id: its for its in _standings(folder, named) if its.waiting}
        deliver_now(folder, list(before), to or settings.store.tracking_uri)
        after = _standings(folder, list(before)) if before else []
        for its in after:
            if its.run_id in known and _ended(ledger, its.run_id) is not None:
                columns = delivery_columns(RunFacts.of(ledger.run(its.run_id)), its)
                if columns:
                    ledger.update_run(its.run_id, **columns)
    delivered = sum(before[its.run_id].waiting - its.waiting for its in after)
    problems = [f"run {its.run_id}: {_why(its)}" for its in after if its.waiting or its.set_aside]
    document = {"runs": list(before), "delivered": delivered, "problems": problems}
    session.answer(document, [f"delivered {delivered} records of {len(before)} runs", *problems])
    if problems:
        raise click.exceptions.Exit(BROKEN)


def _standings(folder: Path, run_ids: Sequence[str]) -> list[Standing]:
    """How the journals of these runs stand, or of all."""
    from alphaswarm_rl.tracking.waiting import journals, standing

    found = {run_id: standing(folder, run_id) for run_id in run_ids or journals(folder)}
    for run_id in run_ids:
        if found[run_id] is None:
            raise TrackingError(f"run {run_id}", "it has no journal: it was not tracked here", "See: rl store status.")
    return [its for its in found.values() if its is not None]


def _ended(ledger: Ledger, run_id: str) -> str | None:
    """How a run ended, as the ledger knows it now; None while it goes on."""
    status = ledger.run(run_id).status
    return None if status in _LIVE else status


def _why(its: Standing) -> str:
    return "; ".join([*([its.problem] if its.problem else []), *its.set_aside])

"""`rl halt`."""

from __future__ import annotations

import getpass
import socket

import click

from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.text import columns
from alphaswarm_rl.cli.verb import verb

_EVERYTHING = "*"


@verb("halt")
@click.argument("run", required=False)
@click.option("--reason", metavar="TEXT", help="Why; kept for good.")
@click.option("--release", is_flag=True, help="End the halt.")
@click.option("--status", is_flag=True, help="Show what is halted now.")
def halt(session: Session, run: str | None, reason: str | None, release: bool, status: bool) -> None:
    """Use the kill switch: halt everything or one run, release it, look at it.

    Without RUN everything is meant: runs stop with a checkpoint, and none starts until the halt is released.

    Args:
        session: This call.
        run: The run that is meant.
        reason: Why.
        release: Whether the halt is ended.
        status: Whether it is only looked at.
    """
    if status and (run is not None or release or reason is not None):
        raise click.UsageError("--status goes with no RUN, --release or --reason")
    if not status and reason is None:
        raise click.UsageError("Missing option '--reason'")

    from alphaswarm_rl.ledger import Ledger

    with Ledger.open(session.settings) as ledger:
        if reason is None:
            rows = ledger.halt_status()
        else:
            change = ledger.release if release else ledger.engage
            rows = [change(run or _EVERYTHING, reason, f"{getpass.getuser()}@{socket.gethostname()}")]
    documents = [row.as_dict() for row in rows]
    table = columns(
        ("SCOPE", "HALTED", "SINCE", "BY", "REASON"),
        [
            ("everything" if row.scope == _EVERYTHING else row.scope, row.engaged, row.set_at, row.set_by, row.reason)
            for row in rows
        ],
    )
    session.answer(documents if status else documents[0], table if rows else ["nothing is halted"])

"""`rl halt`."""

from __future__ import annotations

import getpass
import socket
from typing import TYPE_CHECKING

import click

from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.text import columns
from alphaswarm_rl.cli.verb import verb

if TYPE_CHECKING:
    from alphaswarm_rl.ledger import HaltLogRow

_EVERYTHING = "*"


@verb("halt")
@click.argument("run", required=False)
@click.option("--reason", metavar="TEXT", help="Why; kept for good.")
@click.option("--release", is_flag=True, help="End the halt.")
@click.option("--status", is_flag=True, help="Show what is halted now.")
@click.option("--log", is_flag=True, help="Show who halted and released what, and why, from the beginning.")
def halt(session: Session, run: str | None, reason: str | None, release: bool, status: bool, log: bool) -> None:
    """Use the kill switch: halt everything or one run, release it, look at it.

    Without RUN everything is meant: runs stop with a checkpoint, and none starts until the halt is released.

    Args:
        session: This call.
        run: The run that is meant.
        reason: Why.
        release: Whether the halt is ended.
        status: Whether it is only looked at.
        log: Whether its audit log is shown.
    """
    if status + log > 1 or ((status or log) and (run is not None or release or reason is not None)):
        raise click.UsageError("--status and --log go alone, with no RUN, --release or --reason")
    if not (status or log) and reason is None:
        raise click.UsageError("Missing option '--reason'")

    from alphaswarm_rl.ledger import Ledger

    with Ledger.open(session.settings) as ledger:
        if log:
            _show_log(session, ledger.halt_log())
            return
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


def _show_log(session: Session, entries: list[HaltLogRow]) -> None:
    table = columns(
        ("AT", "SCOPE", "ACTION", "BY", "REASON"),
        [
            (row.at, "everything" if row.scope == _EVERYTHING else row.scope, row.action, row.actor, row.reason)
            for row in entries
        ],
    )
    session.answer([row.as_dict() for row in entries], table if entries else ["nothing was ever halted"])

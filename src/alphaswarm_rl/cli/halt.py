"""`rl halt`."""

from __future__ import annotations

import click

from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.text import columns
from alphaswarm_rl.cli.verb import verb


@verb("halt")
@click.argument("run", required=False)
@click.option("--reason", metavar="TEXT", help="Why; kept for good.")
@click.option("--release", is_flag=True, help="End the halt.")
@click.option("--status", is_flag=True, help="Show what is halted now.")
@click.option("--log", is_flag=True, help="Show who halted and released what, and why, from the beginning.")
def halt(session: Session, run: str | None, reason: str | None, release: bool, status: bool, log: bool) -> None:
    """Use the kill switch: halt everything or one run, release it, look at it.

    Without RUN everything is meant: runs stop with a checkpoint, no policy answers, and no run starts until the halt is
    released. It holds within a second, even while another process keeps the ledger locked.

    Args:
        session: This call.
        run: The run that is meant.
        reason: Why.
        release: Whether the halt is ended.
        status: Whether it is only looked at.
        log: Whether its audit log is shown.
    """
    from alphaswarm_rl.operations.halt import HaltLog, HaltRequest, HaltStatus, halt

    found = halt(session.settings, HaltRequest(run, reason, release, status, log), caller=session.caller)
    names = {"*": "everything"}
    if isinstance(found, HaltLog):
        entries = [
            (row.at, names.get(row.scope, row.scope), row.action, row.actor, row.reason) for row in found.entries
        ]
        table = columns(("AT", "SCOPE", "ACTION", "BY", "REASON"), entries)
        session.answer(found, table if entries else ["nothing was ever halted"])
        return
    switches = found.switches if isinstance(found, HaltStatus) else (found,)
    rows = [(names.get(row.scope, row.scope), row.engaged, row.set_at, row.set_by, row.reason) for row in switches]
    table = columns(("SCOPE", "HALTED", "SINCE", "BY", "REASON"), rows)
    session.answer(found, table if rows else ["nothing is halted"])

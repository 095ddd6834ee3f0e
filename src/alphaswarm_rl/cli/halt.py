"""`rl halt`."""

from __future__ import annotations

import click

from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.text import columns
from alphaswarm_rl.cli.verb import verb


@verb("halt")
@click.argument("run", required=False)
@click.option("--scope", metavar="SCOPE", help="What is meant: platform (everything), bot:NAME or run:RUN.")
@click.option("--reason", metavar="TEXT", help="Why; kept for good.")
@click.option("--release", is_flag=True, help="End the halt.")
@click.option("--status", is_flag=True, help="Show what is halted now.")
@click.option("--log", is_flag=True, help="Show who halted and released what, and why, from the beginning.")
def halt(
    session: Session, run: str | None, scope: str | None, reason: str | None, release: bool, status: bool, log: bool
) -> None:
    """Use the kill switch: halt the platform, a bot or a run, release it, look at it.

    Without RUN and --scope the platform is meant, which is everything: runs stop with a checkpoint, no policy answers,
    and no run starts until the halt is released. A halt of a bot refuses its answers alone. It holds within a second,
    even while another process keeps the ledger locked.

    Args:
        session: This call.
        run: The run that is meant.
        scope: What is meant otherwise.
        reason: Why.
        release: Whether the halt is ended.
        status: Whether it is only looked at.
        log: Whether its audit log is shown.
    """
    from alphaswarm_rl.operations.halt import HaltLog, HaltRequest, HaltStatus, halt

    found = halt(session.settings, HaltRequest(run, reason, release, status, log, scope=scope), caller=session.caller)
    if isinstance(found, HaltLog):
        entries = [(row.at, _shown(row.scope), row.action, row.actor, row.reason) for row in found.entries]
        table = columns(("AT", "SCOPE", "ACTION", "BY", "REASON"), entries)
        session.answer(found, table if entries else ["nothing was ever halted"])
        return
    switches = found.switches if isinstance(found, HaltStatus) else (found,)
    rows = [(_shown(row.scope), row.engaged, row.set_at, row.set_by, row.reason) for row in switches]
    table = columns(("SCOPE", "HALTED", "SINCE", "BY", "REASON"), rows)
    session.answer(found, table if rows else ["nothing is halted"])


def _shown(scope: str) -> str:
    return "platform" if scope == "*" else scope

"""`rl db`: the ledger's database."""

from __future__ import annotations

import click

from alphaswarm_rl.cli.reporting import BROKEN
from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.text import pairs
from alphaswarm_rl.cli.verb import verb


@click.group()
def db() -> None:
    """Upgrade the ledger's database, look at it, or say that it is the right one."""


@verb("db.upgrade", group=db)
def upgrade(session: Session) -> None:
    """Bring the database to the newest revision, and the model registry with it where there is one."""
    from alphaswarm_rl.operations.db import upgrade_database

    result = upgrade_database(session.settings)
    session.answer(result, pairs(result))


@verb("db.status", group=db)
def status(session: Session) -> None:
    """Show the revisions of the database and the model registry, and those this version needs.

    Args:
        session: This call.
    """
    from alphaswarm_rl.operations.db import database_status

    result = database_status(session.settings)
    session.answer(result, pairs(result))
    if not result.usable:
        raise click.exceptions.Exit(BROKEN)


@verb("db.adopt", group=db)
@click.option("--reason", metavar="TEXT", required=True, help="Why it is right; kept for good.")
def adopt(session: Session, reason: str) -> None:
    """Make the ledger of these settings the one that the home works with.

    A home adopts the first ledger it meets. Another one is refused, and so is an empty one beside what runs left, until
    somebody says here that it is right.

    Args:
        session: This call.
        reason: Why it is right.
    """
    from alphaswarm_rl.operations.db import AdoptRequest, adopt_ledger

    result = adopt_ledger(session.settings, AdoptRequest(reason))
    session.answer(result, pairs(vars(result)))


@verb("db.rebuild", group=db)
def rebuild(session: Session) -> None:
    """Bring back runs that the ledger has lost, from event logs, checkpoints and tables.

    Makes a new ledger where there is none. Runs that the ledger has stay as they are. Says what could not be brought
    back.

    Args:
        session: This call.
    """
    from alphaswarm_rl.operations.rebuild import rebuild_ledger

    result = rebuild_ledger(session.settings)
    lost = [f"not brought back: {line}" for line in result.lost]
    counts = {name: value for name, value in vars(result).items() if name != "lost"}
    session.answer(result, [*pairs({**counts, "runs": len(result.runs)}), *lost])

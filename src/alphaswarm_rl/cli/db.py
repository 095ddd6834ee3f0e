"""`rl db`: the ledger's database."""

from __future__ import annotations

import click

from alphaswarm_rl.cli.reporting import BROKEN
from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.text import pairs
from alphaswarm_rl.cli.verb import verb


@click.group()
def db() -> None:
    """Upgrade the ledger's database, or look at its revision."""


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

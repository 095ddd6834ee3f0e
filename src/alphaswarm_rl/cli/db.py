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
    """Bring the database to the newest revision.

    Args:
        session: This call.
    """
    from alphaswarm_rl.cli.database import database_state
    from alphaswarm_rl.db import schema
    from alphaswarm_rl.db.engine import open_engine

    before = database_state(session.settings)
    engine = open_engine(session.settings.database_url)
    try:
        reached = schema.upgrade(engine)
    finally:
        engine.dispose()
    document = {"url": before.url, "from": before.revision, "revision": reached, "head": before.head}
    session.answer(document, pairs(document))


@verb("db.status", group=db)
def status(session: Session) -> None:
    """Show the database's revision and the one this version needs.

    Args:
        session: This call.
    """
    from alphaswarm_rl.cli.database import USABLE, database_state

    found = database_state(session.settings)
    session.answer(vars(found), pairs(vars(found)))
    if found.state not in USABLE:
        raise click.exceptions.Exit(BROKEN)

"""`rl specs`: the specs in the ledger."""

from __future__ import annotations

import click

from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.text import columns
from alphaswarm_rl.cli.verb import verb


@click.group()
def specs() -> None:
    """List the specs in the ledger and their versions."""


@verb("specs.list", group=specs)
def list_specs(session: Session) -> None:
    """List the specs.

    Args:
        session: This call.
    """
    from alphaswarm_rl.ledger import Ledger

    with Ledger.open(session.settings) as ledger:
        found = ledger.specs()
    table = columns(
        ("SLUG", "NAME", "KIND", "VERSION", "UPDATED", "DESCRIPTION"),
        [(row.slug, row.name, row.kind, row.current_version, row.updated_at, row.description) for row in found],
    )
    session.answer([row.as_dict() for row in found], table if found else ["there are no specs yet"])


@verb("specs.versions", group=specs)
@click.argument("slug")
def versions(session: Session, slug: str) -> None:
    """List the versions of one spec, the oldest first.

    Args:
        session: This call.
        slug: The spec's slug.
    """
    from alphaswarm_rl.ledger import Ledger

    with Ledger.open(session.settings) as ledger:
        found = ledger.versions(slug)
    table = columns(
        ("VERSION", "ID", "SPEC HASH", "EXEC HASH", "CREATED"),
        [(row.version, row.id, row.spec_hash[:12], row.exec_hash[:12], row.created_at) for row in found],
    )
    session.answer([row.as_dict() for row in found], table)

"""`rl components`: the catalogue."""

from __future__ import annotations

from typing import Any

import click

from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.text import as_json_text, columns, pairs
from alphaswarm_rl.cli.verb import verb
from alphaswarm_rl.core import catalogue

_LISTED = ("rl_kind", "alias", "class_name", "module_path", "rl_version", "description", "tags", "source", "category")


@click.group()
def components() -> None:
    """List the components that specs can name, and their parameters."""


@verb("components.list", group=components)
@click.option("--kind", metavar="KIND", help="Only that kind, such as env, agent or policy.")
def list_components(session: Session, kind: str | None) -> None:
    """List the components.

    The list comes from the ledger's mirror of the catalogue, which is renewed when the installed code is another;
    components of a --plugin are read from the catalogue itself and never enter the mirror.

    Args:
        session: This call.
        kind: Only that kind.
    """
    rows = _described() if session.plugins else _mirrored(session)
    if kind is not None:
        rows = _of_kind(rows, kind)
    table = columns(
        ("KIND", "ALIAS", "DESCRIPTION"), [(row["rl_kind"], row["alias"], row["description"]) for row in rows]
    )
    listed = [{name: row[name] for name in _LISTED} for row in rows]
    session.answer(listed, table if rows else [f"no component of kind {kind!r} is installed"])


@verb("components.show", group=components)
@click.argument("kind")
@click.argument("alias")
def show(session: Session, kind: str, alias: str) -> None:
    """Show one component and the JSON schema of its parameters.

    Args:
        session: This call.
        kind: Its kind.
        alias: Its alias, class name or short name.
    """
    description = vars(catalogue.describe(catalogue.get(kind, alias)))
    known = {name: value for name, value in description.items() if name != "schema"}
    session.answer(description, [*pairs(known), "", as_json_text(description["schema"])])


def _described() -> list[dict[str, Any]]:
    return [vars(catalogue.describe(cls)) for cls in catalogue.listing()]


def _mirrored(session: Session) -> list[dict[str, Any]]:
    from alphaswarm_rl.cli.components_fingerprint import components_fingerprint
    from alphaswarm_rl.ledger import Ledger

    fingerprint = components_fingerprint()
    with Ledger.open(session.settings) as ledger:
        if ledger.components_fingerprint() != fingerprint:
            # The mirror has no column for short names: they are another way to write a component, not one.
            rows = [{**row, "tags": list(row["tags"])} for row in _described()]
            for row in rows:
                del row["short_names"]
            ledger.sync_components(rows, fingerprint)
        return [row.as_dict() for row in ledger.components()]


def _of_kind(rows: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    exact = [row for row in rows if row["rl_kind"] == kind]
    if exact:
        return exact
    # Another spelling, a kind without components, or a mistake: only the catalogue itself can tell.
    canonical = catalogue.canonical_kind(kind)
    return [row for row in rows if row["rl_kind"] == canonical]

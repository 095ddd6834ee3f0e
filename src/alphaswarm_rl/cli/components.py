"""`rl components`: the catalogue."""

from __future__ import annotations

import click

from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.text import as_json_text, columns, pairs
from alphaswarm_rl.cli.verb import verb


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
    from alphaswarm_rl.operations.components import ListComponents, list_components

    result = list_components(session.settings, ListComponents(kind, mirrored=not session.plugins))
    rows = result.components
    table = columns(("KIND", "ALIAS", "DESCRIPTION"), [(row.rl_kind, row.alias, row.description) for row in rows])
    session.answer(result, table if rows else [f"no component of kind {kind!r} is installed"])


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
    from alphaswarm_rl.operations.components import ShowComponent, show_component

    result = show_component(session.load_settings, ShowComponent(kind, alias))
    known = {name: value for name, value in vars(result).items() if name != "schema"}
    session.answer(result, [*pairs(known), "", *as_json_text(result.schema).split("\n")])

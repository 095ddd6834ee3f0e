"""`rl options`, also installed as `introspect-options`."""

from __future__ import annotations

from typing import Literal

import click

from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.text import columns
from alphaswarm_rl.cli.verb import verb


@verb("options")
@click.argument("module_path", required=False)
@click.option("--nix", is_flag=True, help="As a module of the Nix module system.")
@click.option("--markdown", is_flag=True, help="As Markdown.")
def options(session: Session, module_path: str | None, nix: bool, markdown: bool) -> None:
    """List every option with its ENV name, flag and Nix name.

    MODULE_PATH picks one feature, such as RL/Train; a path that ends in RL means all.

    Args:
        session: This call.
        module_path: The feature.
        nix: Whether they are written as Nix.
        markdown: Whether they are written as Markdown.
    """
    from alphaswarm_rl.operations.options import ListOptions, OptionText, list_options

    given: dict[Literal["json", "nix", "markdown"], bool] = {"json": session.as_json, "nix": nix, "markdown": markdown}
    forms = tuple(form for form, is_given in given.items() if is_given)
    found = list_options(session.load_settings, ListOptions(module_path, forms))
    if isinstance(found, OptionText):
        session.write(found.text, newline=False)
        return
    titles = [name.upper() for name in found.columns]
    blocks = [[table.title, *(f"  {line}" for line in columns(titles, table.rows)), ""] for table in found.tables]
    session.answer(found, [line for block in blocks for line in block])

"""`rl options`, also installed as `introspect-options`."""

from __future__ import annotations

import click

from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.text import columns
from alphaswarm_rl.cli.verb import verb
from alphaswarm_rl.options import Feature, introspect
from alphaswarm_rl.options.render import COLUMNS, as_json, as_markdown, as_nix, rows


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
    if nix + markdown + session.as_json > 1:
        raise click.UsageError("give one of --json, --nix and --markdown")
    features = introspect(module_path)
    if nix:
        session.write(as_nix(features), newline=False)
    elif markdown:
        session.write(as_markdown(features), newline=False)
    else:
        session.answer(as_json(features), [line for feature in features for line in _block(feature)])


def _block(feature: Feature) -> list[str]:
    title = f"{feature.name}: {feature.purpose}. {feature.signature} ({feature.category})"
    return [title, *(f"  {line}" for line in columns([name.upper() for name in COLUMNS], rows(feature))), ""]

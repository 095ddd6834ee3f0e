"""The table as command line options."""

from __future__ import annotations

from collections.abc import Mapping

import click
from click.shell_completion import CompletionItem

from alphaswarm_rl.options.option import Option
from alphaswarm_rl.options.render import show
from alphaswarm_rl.options.table import BY_KEY
from alphaswarm_rl.options.types import TEXTS

_JOINT = "__"


class _Text(click.types.StringParamType):
    # A value stays the text it is: all faces share one reader, and click would take a null for "not given".
    def __init__(self, option: Option) -> None:
        self._choices = option.type.choices
        self._metavar = f"[{'|'.join(self._choices)}]" if self._choices else option.type.name.upper().replace(" ", "")

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return self._metavar

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(choice) for choice in self._choices if choice.startswith(incomplete)]


class TableOption(click.Option):
    """A command line option that comes from the table; `row` is its row, for help that groups by feature."""

    def __init__(self, row: Option) -> None:
        self.row = row
        super().__init__(
            [row.flags, row.key.replace(".", _JOINT)],
            type=bool if row.type.is_boolean else _Text(row),
            multiple=row.type is TEXTS,
            # No default here: an option that is not given must be seen as such, or ENV and file would never count.
            default=None,
            help=_help(row),
        )


def given(params: Mapping[str, object]) -> dict[str, object]:
    """The options that were given, by key, out of a command's parameters; a command's own parameters are left out."""
    keys = {name: key_of(name) for name in params}
    return {key: params[name] for name, key in keys.items() if key is not None and params[name] not in (None, ())}


def key_of(param_name: str) -> str | None:
    """The key of the option that a command's parameter is for; None for a parameter of the command's own."""
    key = param_name.replace(_JOINT, ".")
    return key if key in BY_KEY else None


def _help(row: Option) -> str:
    waits = f" Waits for {row.part}." if row.part else ""
    without_spec = " without a SPEC" if row.target == "spec" else ""
    return f"{row.description}{waits} [ENV {row.env[0]}; default {show(row.default, row.type)}{without_spec}]"

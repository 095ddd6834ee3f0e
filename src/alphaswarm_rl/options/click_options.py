"""The table as command line options."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import click
from click.shell_completion import CompletionItem

from alphaswarm_rl.options.option import Option, Target
from alphaswarm_rl.options.render import show
from alphaswarm_rl.options.table import BY_KEY, OPTIONS

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
            # No default here: an option that is not given must be seen as such, or ENV and file would never count.
            default=None,
            help=_help(row),
        )


def option_params(targets: Collection[Target] = ("spec", "settings")) -> list[click.Option]:
    """The command line options of the table that set the spec, the settings or both."""
    return [TableOption(option) for option in OPTIONS if option.target in targets]


def given(params: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given, by key, out of a command's parameters; a command's own parameters are left out."""
    keys = {name: name.replace(_JOINT, ".") for name in params}
    return {key: params[name] for name, key in keys.items() if key in BY_KEY and params[name] is not None}


def _help(row: Option) -> str:
    waits = f" Waits for {row.part}." if row.part else ""
    without_spec = " without a SPEC" if row.target == "spec" else ""
    return f"{row.description}{waits} [ENV {row.env[0]}; default {show(row.default, row.type)}{without_spec}]"

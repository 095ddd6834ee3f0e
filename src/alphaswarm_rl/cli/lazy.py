"""A group of commands that imports one only when it is run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module

import click
from click.shell_completion import CompletionItem

from alphaswarm_rl.core.errors import nearest


@dataclass(frozen=True)
class Entry:
    """Where a command is defined, and its line in the help; a test compares the line with the command's own.

    Attributes:
        home: Module of the command line and attribute, as `module:attribute`.
        line: What it does, in one line.
        alias_of: The command that this is another name of.
    """

    home: str
    line: str
    alias_of: str | None = None

    def load(self) -> click.Command:
        """The command itself."""
        module, _, attribute = self.home.partition(":")
        command: click.Command = getattr(import_module(f"alphaswarm_rl.cli.{module}"), attribute)
        return command


class LazyGroup(click.Group):
    """A group whose commands stand in a table of text until they are run.

    Args:
        name: What it is called.
        entries: The commands by name.
        help: What its commands do.
        epilog: What the help ends with.
    """

    def __init__(self, name: str, entries: Mapping[str, Entry], *, help: str, epilog: str | None = None) -> None:  # noqa: A002
        super().__init__(name, help=help, epilog=epilog, context_settings={"help_option_names": ["-h", "--help"]})
        self.entries = dict(entries)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every name, in the order of the table."""
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, imported now."""
        entry = self.entries.get(cmd_name)
        return None if entry is None else entry.load()

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the arguments name; an unknown one is an error that proposes the nearest."""
        name = args[0]
        if name not in self.entries and not name.startswith("-") and not ctx.resilient_parsing:
            raise click.UsageError(f"there is no command {name!r}. {nearest(name, self.entries)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list in the help, out of the table: importing every command would take seconds."""
        rows = [(name, entry.line) for name, entry in self.entries.items() if entry.alias_of is None]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Completions, out of the table too."""
        names = [
            CompletionItem(name, help=entry.line) for name, entry in self.entries.items() if name.startswith(incomplete)
        ]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]

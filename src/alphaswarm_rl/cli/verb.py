"""The one decorator that makes a function a command: global options, options of the table, help by feature."""

from __future__ import annotations

import functools
import inspect
import sys
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

import click

from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.operations.operation import RequestError
from alphaswarm_rl.options.click_options import TableOption, given, key_of
from alphaswarm_rl.options.table import EVERY, OPTIONS

_OWN = ("as_json", "debug", "settings_file")


class Verb(click.Command):
    """A command whose help shows its own options first, then those of the table by feature, then the global ones."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options in the help."""
        sections: dict[str, list[tuple[str, str]]] = {"Options": []}
        for param in self.get_params(ctx):
            # Newer versions of click list arguments too; the usage line and the text above say what they are.
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record is not None:
                sections.setdefault(_section(param), []).append(record)
        everywhere = sections.pop("Every command", [])
        for title, records in {**sections, "Every command": everywhere}.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def verb(name: str, *, group: click.Group | None = None) -> Callable[[Callable[..., None]], click.Command]:
    """Makes a command of a function that takes a `Session` first and the command's own parameters by name.

    Which options of the table it takes is a column of the table; what was given of them is in `session.flags`.

    Args:
        name: Its words joined by dots, such as `runs.list`: the name of the operation that it calls.
        group: The group it is added to; None for the root's commands and those of lazy groups.
    """

    def decorate(function: Callable[..., None]) -> click.Command:
        help_text = inspect.cleandoc(function.__doc__ or "").partition("\n\nArgs:")[0]
        command = click.command(name.rpartition(".")[2], cls=Verb, help=help_text)(_with_session(function))
        everywhere = [TableOption(row) for row in OPTIONS if EVERY in row.verbs and not row.belongs_to(name)]
        command.params += [*_table(name), *_global_params(), *everywhere]
        if group is not None:
            group.add_command(command)
        return command

    return decorate


def _table(verb_name: str) -> list[TableOption]:
    """The options of the table that a command takes, and, hidden, those that it refuses with the reason."""
    runs_stored_version = any(verb_name in row.refused_by for row in OPTIONS)
    params = []
    for row in OPTIONS:
        refused = verb_name in row.refused_by
        if not refused and not row.belongs_to(verb_name):
            continue
        param = TableOption(row)
        param.hidden = refused or row.part is not None
        if row.target == "spec" and runs_stored_version:
            param.help = f"{row.description} [ENV {row.env[0]}; default as the run, or its version, has it]"
        params.append(param)
    return params


def _section(param: click.Parameter) -> str:
    if isinstance(param, TableOption) and EVERY not in param.row.verbs:
        return f"{param.row.feature} options"
    return "Every command" if isinstance(param, TableOption) or param.name in _OWN else "Options"


def _with_session(function: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(function)
    def call(*, as_json: bool, debug: bool, settings_file: Path | None, **values: object) -> None:
        session = Session(sys.stdout, given(values), as_json, settings_file)
        own = {name: value for name, value in values.items() if key_of(name) is None}
        # Libraries print and warn: the result must be alone on standard output, and a warning needs no file and line.
        with redirect_stdout(sys.stderr), warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: session.notice(" ".join(str(message).split()))
            session.load_plugins()
            try:
                function(session, **own)
            except RequestError as error:
                raise click.UsageError(str(error)) from error

    return call


def _global_params() -> list[click.Option]:
    return [
        click.Option(["--json", "as_json"], is_flag=True, help="One JSON document on stdout, all else on stderr."),
        click.Option(["--debug"], is_flag=True, help="Show tracebacks."),
        click.Option(
            ["--settings", "settings_file"],
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="Settings file; default settings.yaml in the home folder.",
        ),
    ]

"""The one decorator that makes a function a command: global options, options of the table, help by feature."""

from __future__ import annotations

import functools
import inspect
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import click

from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.options import BY_KEY, RUN_ARGUMENTS
from alphaswarm_rl.options.click_options import TableOption, given, option_params

#: Rows of the table that every command takes.
_EVERYWHERE = ("home.folder", "home.dbUrl", "logs.level")
#: Rows that only `rl models prune` heeds.
_PRUNING = ("registry.keepTopN", "registry.maxAge")
#: Rows that change nothing about judging a policy.
_TRAINING_ONLY = ("infer.modelPath", "store.checkpointFreq", "store.keepLast", "home.episodeRate", *_PRUNING)
#: Rows that say where the tables of recorded steps are, and what they are called.
_LAKE = (
    "lake.catalogUrl",
    "lake.warehouse",
    "lake.s3Endpoint",
    "lake.s3Region",
    "trajectory.namespace",
    "trajectory.table",
    "trajectory.equityTable",
    "trajectory.actionLogTable",
    "trajectory.rewardDecompTable",
)
_OWN = ("as_json", "debug", "plugin", "settings_file")


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


def verb(
    name: str, *, group: click.Group | None = None, table: Sequence[click.Option] = ()
) -> Callable[[Callable[..., Any]], click.Command]:
    """Makes a command of a function that takes a `Session` first and the command's own parameters by name.

    Args:
        name: What it is called.
        group: The group it belongs to.
        table: Options of the table that it takes; what was given of them is in `session.flags`.
    """

    def decorate(function: Callable[..., Any]) -> click.Command:
        help_text = inspect.cleandoc(function.__doc__ or "").partition("\n\nArgs:")[0]
        command = click.command(name, cls=Verb, help=help_text)(_with_session(function))
        there = {param.name for param in table}
        command.params += [*table, *(param for param in _global_params() if param.name not in there)]
        if group is not None:
            group.add_command(command)
        return command

    return decorate


def training_options() -> list[click.Option]:
    """The options of a command that runs a spec; those that wait for a part are refused with the reason, not shown."""
    return [_hidden(param, param.row.part is not None) for param in _rows(without=("infer.modelPath", *_PRUNING))]


def judging_table() -> list[click.Option]:
    """The options of a command that judges a spec or a run; what only training heeds is not among them."""
    return [_hidden(param, param.row.part is not None) for param in _rows(without=_TRAINING_ONLY)]


def inference_options() -> list[click.Option]:
    """The options of a command that answers with a policy and runs nothing."""
    taken = ("infer.modelPath", "infer.device", "infer.threads", "registry.dbPath")
    return [param for param in _rows() if param.row.key in taken]


def lake_options() -> list[click.Option]:
    """The options of a command that works on the tables of recorded steps."""
    return [param for param in _rows() if param.row.key in _LAKE]


def registry_options(*more: str) -> list[click.Option]:
    """The options of a command that works on the model registry: where it is, and those rows of the table."""
    return [param for param in _rows() if param.row.key in ("registry.dbPath", *more)]


def stored_version_options(*arguments: str, trains: bool = False) -> list[click.Option]:
    """The options of a command that runs a stored version.

    Those of the spec are there to be refused with the reason, and not shown, but for the arguments of a run.

    Args:
        *arguments: The arguments of a run that it takes: seed, episodes, deterministic.
        trains: Whether it trains; otherwise what only training heeds is not among them.
    """
    taken = {key for argument, key in RUN_ARGUMENTS.items() if argument in arguments}
    rows = _rows(without=("infer.modelPath", "store.runName", *_PRUNING) if trains else _TRAINING_ONLY)
    for param in rows:
        if param.row.key in taken:
            param.help = f"{param.row.description} [ENV {param.row.env[0]}; default as the run, or its version, has it]"
    return [
        _hidden(param, param.row.part is not None or (param.row.target == "spec" and param.row.key not in taken))
        for param in rows
    ]


def _rows(without: Sequence[str] = ()) -> list[TableOption]:
    return [param for param in option_params() if isinstance(param, TableOption) and param.row.key not in without]


def _hidden(param: TableOption, hidden: bool) -> TableOption:
    param.hidden = hidden
    return param


def _section(param: click.Parameter) -> str:
    if isinstance(param, TableOption) and param.row.key not in _EVERYWHERE:
        return f"{param.row.feature} options"
    return "Every command" if isinstance(param, TableOption) or param.name in _OWN else "Options"


def _with_session(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(**values: Any) -> Any:
        session = Session(
            out=sys.stdout,
            flags=given(values),
            as_json=values["as_json"],
            settings_file=values["settings_file"],
            plugins=values["plugin"],
        )
        of_table = {key.replace(".", "__") for key in BY_KEY}
        own = {name: value for name, value in values.items() if name not in _OWN and name not in of_table}
        # Libraries print and warn: the result must be alone on standard output, and a warning needs no file and line.
        with redirect_stdout(sys.stderr), warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: session.notice(" ".join(str(message).split()))
            session.load_plugins()
            return function(session, **own)

    return call


def _global_params() -> list[click.Option]:
    return [
        click.Option(["--json", "as_json"], is_flag=True, help="One JSON document on stdout, all else on stderr."),
        click.Option(["--debug"], is_flag=True, help="Show tracebacks."),
        click.Option(
            ["--plugin"], multiple=True, metavar="MODULE", help="Import components from a module; may be given again."
        ),
        click.Option(
            ["--settings", "settings_file"],
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="Settings file; default settings.yaml in the home folder.",
        ),
        *(param for param in _rows() if param.row.key in _EVERYWHERE),
    ]

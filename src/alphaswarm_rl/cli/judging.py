"""What evaluate and replay have in common: their own options, and the arguments of a run of a stored version."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click
from pydantic import TypeAdapter, ValidationError

from alphaswarm_rl.cli.results import say_spec
from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.core.errors import OptionError
from alphaswarm_rl.core.window import Window
from alphaswarm_rl.options import BY_KEY, RUN_ARGUMENTS, EffectiveSpec, RunArguments, effective_spec, run_arguments
from alphaswarm_rl.spec import RLExperimentSpec
from alphaswarm_rl.spec.sections import IsoDate

_DATE = TypeAdapter(IsoDate)


@dataclass(frozen=True)
class Judging:
    """The options of these verbs that are not in the table."""

    checkpoint: str | None
    start: str | None
    end: str | None
    strict: bool

    @property
    def window(self) -> Window | None:
        """The window that the dates mean; None when none was given."""
        return Window(_date("--start", self.start), _date("--end", self.end)) or None


def judging_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --checkpoint, --start, --end and --strict."""
    for option in (
        click.option("--strict", is_flag=True, help="Refuse when components changed since the version was stored."),
        click.option("--end", metavar="DATE", help="First date after the window."),
        click.option("--start", metavar="DATE", help="First date of the window."),
        click.option("--checkpoint", metavar="best|STEP|PATH", help="Which checkpoint; default the run's last."),
    ):
        function = option(function)
    return function


def stored_arguments(session: Session) -> tuple[dict[str, Any], dict[str, Any]]:
    """Seed, episodes and deterministic as flags and environment give them, and where each comes from.

    The stored version alone says the rest.
    """
    arguments = run_arguments(session.flags, os.environ)
    for notice in arguments.notices:
        session.notice(notice)
    return dict(arguments.values.items()), _sources(session, arguments)


def _sources(session: Session, arguments: RunArguments) -> dict[str, Any]:
    sources = {name: {"value": arguments.values[name], "source": arguments.sources[name]} for name in arguments.values}
    for name, origin in sources.items():
        session.say(f"  {name} = {origin['value']}  ({origin['source']})")
    return dict(sources.items())


def spec_arguments(session: Session, base: RLExperimentSpec) -> tuple[EffectiveSpec, dict[str, Any], dict[str, Any]]:
    """The effective spec, the same arguments apart from it, which change no version, and where all of it comes from."""
    keys = set(RUN_ARGUMENTS.values())
    names = {name for key in keys for name in BY_KEY[key].env_names}
    flags = {key: value for key, value in session.flags.items() if key not in keys}
    environ = {name: value for name, value in os.environ.items() if name not in names}
    of_run = run_arguments(
        {key: value for key, value in session.flags.items() if key in keys},
        {name: value for name, value in os.environ.items() if name in names},
    )
    effective = effective_spec(base, flags, environ)
    say_spec(session, effective)
    return effective, dict(of_run.values.items()), {**effective.sources, **_sources(session, of_run)}


def _date(flag: str, text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return _DATE.validate_python(text)
    except ValidationError as error:
        raise OptionError(
            f"option {flag} {text!r}", "it is not an ISO date", "Write one such as 2024-01-31."
        ) from error

"""How the result of a run is shown, and the options that evaluate and replay share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from alphaswarm_rl.cli.reporting import HALTED
from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.text import pairs

if TYPE_CHECKING:
    from alphaswarm_rl.operations.evaluate import ModelEvaluation, RunResult


def give_run(session: Session, result: RunResult | ModelEvaluation) -> None:
    """Gives the result of a run; a halted one ends the command with the exit code that says so."""
    for notice in result.notices:
        session.notice(notice)
    session.answer(result, pairs(result.summary))
    if result.status == "halted":
        raise click.exceptions.Exit(HALTED)


def judging_options(function: Callable[..., None]) -> Callable[..., None]:
    """Adds --checkpoint, --start, --end and --strict."""
    for option in (
        click.option("--strict", is_flag=True, help="Refuse when components changed since the version was stored."),
        click.option("--end", metavar="DATE", help="First date after the window."),
        click.option("--start", metavar="DATE", help="First date of the window."),
        click.option("--checkpoint", metavar="best|STEP|PATH", help="Which checkpoint; default the run's last."),
    ):
        function = option(function)
    return function

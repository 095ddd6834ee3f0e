"""How the result of a run is shown, and the options that evaluate and replay share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from alphaswarm_rl.cli.reporting import HALTED
from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.text import SHORT_ID, columns, pairs
from alphaswarm_rl.core.wording import PORTFOLIO_METRICS

if TYPE_CHECKING:
    from alphaswarm_rl.operations.evaluate import EvaluationBesideBaselines, ModelEvaluation, RunResult


def give_run(session: Session, result: RunResult | ModelEvaluation | EvaluationBesideBaselines) -> None:
    """Gives the result of a run; a halted one ends the command with the exit code that says so."""
    for notice in result.notices:
        session.notice(notice)
    session.answer(result, [*pairs(result.summary), *_baseline_lines(result)])
    if result.status == "halted":
        raise click.exceptions.Exit(HALTED)


def _baseline_lines(result: RunResult | ModelEvaluation | EvaluationBesideBaselines) -> list[str]:
    """The policy and the rules that were judged beside it; nothing where there are none."""
    baselines = getattr(result, "baselines", ())
    if not baselines:
        return []
    judged = [("this", result.run_id, result.metrics), *((item.name, item.run_id, item.metrics) for item in baselines)]
    names = [name for name in ("mean_reward", *PORTFOLIO_METRICS) if name in result.metrics]
    rows = [
        (label, run_id[:SHORT_ID], *(metrics.get(name) for name in names))
        for label, run_id, metrics in judged
        if run_id
    ]
    failed = [f"{item.name} could not be judged: {item.error}" for item in baselines if item.error is not None]
    return ["", *columns(("WHAT", "RUN", *(name.upper().replace("_", " ") for name in names)), rows), *failed]


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

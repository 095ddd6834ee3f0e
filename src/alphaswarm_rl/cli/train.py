"""`rl train` and `rl resume`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from alphaswarm_rl.cli.results import give_run
from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.text import columns, pairs
from alphaswarm_rl.cli.verb import verb

if TYPE_CHECKING:
    from alphaswarm_rl.operations.train import TrainingPlan


@verb("train")
@click.argument("spec", required=False)
@click.option("--dry-run", is_flag=True, help="Check, read and build everything, show the plan, and write nothing.")
@click.option("--continue", "continue_run", metavar="RUN", help="Train that run further, to --total-timesteps in all.")
def train(session: Session, spec: str | None, dry_run: bool, continue_run: str | None) -> None:
    """Train a spec's agent, judge it, and leave a checkpoint.

    SPEC is a YAML file or the name of a preset; without it the options' defaults are trained. Flags and environment
    variables change the spec before it is hashed; `--seed random` draws a seed for this run and leaves the spec alone.

    With --continue a run that has ended is trained further under its own spec, by a run of its own: it goes on with
    optimiser, schedules, replay buffer and counters from the last checkpoint.

    Args:
        session: This call.
        spec: The YAML file or the preset.
        dry_run: Whether nothing is run.
        continue_run: The run that is trained further: its id, the beginning of it, or latest.
    """
    from alphaswarm_rl.operations.train import TrainingPlan, TrainRequest, train

    request = TrainRequest(spec, session.flags, dry_run, continue_run)
    found = train(session.settings, request, caller=session.caller)
    if isinstance(found, TrainingPlan):
        session.answer(found, _plan_lines(found))
        return
    give_run(session, found)


@verb("resume")
@click.argument("run")
@click.option("--from", "step", type=int, metavar="STEP", help="Go on from the checkpoint of that step.")
def resume(session: Session, run: str, step: int | None) -> None:
    """Go on with an interrupted, halted or failed training run.

    RUN is a run's id, the beginning of it, or latest: the newest that can go on. It goes on in its own row, under its
    stored version and seed, from its newest checkpoint; where that is damaged or gone, from the newest intact one, and
    says so. What came after the checkpoint is dropped and made again.

    Args:
        session: This call.
        run: The run's id, the beginning of it, or latest: the newest that can go on.
        step: Which of its checkpoints it goes on from.
    """
    from alphaswarm_rl.operations.train import ResumeRequest, resume

    request = ResumeRequest(run, session.flags, step)
    give_run(session, resume(session.settings, request, caller=session.caller))


def _plan_lines(plan: TrainingPlan) -> list[str]:
    """A planned training, for people."""
    facts = {name: value for name, value in vars(plan).items() if name not in ("windows", "trading_costs", "notices")}
    rows = [
        (name, window.first_bar or window.start, window.last_bar or window.end, window.bars, window.warmup_bars)
        for name, window in plan.windows.items()
    ]
    costs = pairs(plan.trading_costs)
    return [
        *pairs(facts),
        "",
        *columns(("WINDOW", "FIRST", "LAST", "BARS", "WARM-UP"), rows),
        *(["", "trading costs", *(f"  {line}" for line in costs)] if costs else []),
        "",
        *(f"notice: {notice}" for notice in plan.notices),
        "nothing was written; without --dry-run it is trained",
    ]

"""`rl train` and `rl resume`."""

from __future__ import annotations

import click

from alphaswarm_rl.cli.results import give_run
from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.verb import verb


@verb("train")
@click.argument("spec", required=False)
def train(session: Session, spec: str | None) -> None:
    """Train a spec's agent, judge it, and leave a checkpoint.

    SPEC is a YAML file or the name of a preset; without it the options' defaults are trained. Flags and environment
    variables change the spec before it is hashed; `--seed random` draws a seed for this run and leaves the spec alone.

    Args:
        session: This call.
        spec: The YAML file or the preset.
    """
    from alphaswarm_rl.operations.train import TrainRequest, train

    request = TrainRequest(spec, session.flags)
    give_run(session, train(session.settings, request, caller=session.caller))


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

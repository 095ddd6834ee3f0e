"""`rl resume`."""

from __future__ import annotations

import os
import sys

import click

from alphaswarm_rl.cli.results import give_result
from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.verb import verb
from alphaswarm_rl.options import run_arguments


@verb("resume")
@click.argument("run")
def resume(session: Session, run: str) -> None:
    """Go on with an interrupted, halted or failed training run.

    RUN is a run's id, the beginning of it, or latest: the newest that can go on. It goes on in its own row, from its
    last checkpoint, under its stored version and seed.

    Args:
        session: This call.
        run: The run's id, the beginning of it, or latest: the newest that can go on.
    """
    for notice in run_arguments(session.flags, os.environ, allowed=()).notices:
        session.notice(notice)
    settings = session.settings

    from alphaswarm_rl.runtime import RLRuntime

    runtime = RLRuntime.from_run(run, settings, progress=sys.stderr.isatty(), verb="resume")
    give_result(session, runtime.resume())

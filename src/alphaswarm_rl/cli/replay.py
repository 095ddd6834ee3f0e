"""`rl replay`."""

from __future__ import annotations

import click

from alphaswarm_rl.cli.judging import Judging, judging_options, stored_arguments
from alphaswarm_rl.cli.results import give_result
from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.verb import verb


@verb("replay")
@click.argument("run")
@judging_options
def replay(
    session: Session, run: str, checkpoint: str | None, start: str | None, end: str | None, strict: bool
) -> None:
    """Feed a run's policy another window or seed, under its pinned version.

    RUN is a run's id, the beginning of it, or latest: the newest that has a policy. The new run has it as its parent
    and the same version.

    Args:
        session: This call.
        run: The run whose policy is replayed.
        checkpoint: `best`, a step or a folder.
        start: First date of the window.
        end: First date after the window.
        strict: Whether changed components are refused.
    """
    arguments, sources = stored_arguments(session)
    window = Judging(checkpoint, start, end, strict).window
    settings = session.settings

    from alphaswarm_rl.runtime import RLRuntime

    runtime = RLRuntime.from_run(run, settings, overrides=sources, verb="replay")
    give_result(session, runtime.replay(window, checkpoint=checkpoint, strict=strict, **arguments))

"""`rl evaluate`."""

from __future__ import annotations

import click

from alphaswarm_rl.cli.judging import Judging, judging_options, spec_arguments, stored_arguments
from alphaswarm_rl.cli.results import give_result
from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.targets import names_a_run
from alphaswarm_rl.cli.verb import judging_table, verb
from alphaswarm_rl.spec import load_spec


@verb("evaluate", table=judging_table())
@click.argument("run_or_spec")
@judging_options
def evaluate(
    session: Session, run_or_spec: str, checkpoint: str | None, start: str | None, end: str | None, strict: bool
) -> None:
    """Judge a run's policy, or a spec's, on the evaluation window.

    RUN_OR_SPEC is a run (its id, the beginning of it, or latest: the newest that has a policy), a YAML file or the name
    of a preset. A run is judged under its stored version; a spec needs --checkpoint, unless its agent trains nothing.
    --seed, --episodes and --deterministic are arguments of the new run and change no version; a run takes no other
    option of the spec.

    Args:
        session: This call.
        run_or_spec: What is judged.
        checkpoint: `best`, a step or a folder.
        start: First date of the window.
        end: First date after the window.
        strict: Whether changed components are refused.
    """
    judging = Judging(checkpoint, start, end, strict)
    if names_a_run(run_or_spec):
        _evaluate_run(session, run_or_spec, judging)
    else:
        _evaluate_spec(session, run_or_spec, judging)


def _evaluate_run(session: Session, run: str, judging: Judging) -> None:
    arguments, sources = stored_arguments(session)
    window, settings = judging.window, session.settings

    from alphaswarm_rl.runtime import RLRuntime

    runtime = RLRuntime.from_run(run, settings, overrides=sources, verb="evaluate")
    result = runtime.evaluate(checkpoint=judging.checkpoint, window=window, strict=judging.strict, **arguments)
    give_result(session, result)


def _evaluate_spec(session: Session, reference: str, judging: Judging) -> None:
    effective, arguments, sources = spec_arguments(session, load_spec(reference))
    window, settings = judging.window, session.settings

    from alphaswarm_rl.runtime import RLRuntime

    runtime = RLRuntime(effective.spec, settings, overrides=sources)
    result = runtime.evaluate(checkpoint=judging.checkpoint, window=window, strict=judging.strict, **arguments)
    give_result(session, result)

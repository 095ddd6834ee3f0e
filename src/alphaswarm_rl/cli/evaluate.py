"""`rl evaluate`."""

from __future__ import annotations

import click

from alphaswarm_rl.cli.judging import Judging, judging_options, spec_arguments, stored_arguments
from alphaswarm_rl.cli.results import give_result
from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.verb import verb
from alphaswarm_rl.core.errors import OptionError
from alphaswarm_rl.operations.references import names_a_run
from alphaswarm_rl.spec import load_spec


@verb("evaluate")
@click.argument("run_or_spec", required=False)
@click.option(
    "--model-id", type=int, metavar="N", help="Judge a model of the registry instead, and run its gates again."
)
@judging_options
def evaluate(
    session: Session,
    run_or_spec: str | None,
    model_id: int | None,
    checkpoint: str | None,
    start: str | None,
    end: str | None,
    strict: bool,
) -> None:
    """Judge a run's policy, or a spec's, on the evaluation window.

    RUN_OR_SPEC is a run (its id, the beginning of it, or latest: the newest that has a policy), a YAML file or the name
    of a preset. A run is judged under its stored version; a spec needs --checkpoint, unless its agent trains nothing.
    --seed, --episodes and --deterministic are arguments of the new run and change no version; a run takes no other
    option of the spec. --model-id N, instead, judges a model of the registry, adds what is found to it and runs its
    gates again.

    Args:
        session: This call.
        run_or_spec: What is judged.
        model_id: The model that is judged instead.
        checkpoint: `best`, a step or a folder.
        start: First date of the window.
        end: First date after the window.
        strict: Whether changed components are refused.
    """
    judging = Judging(checkpoint, start, end, strict)
    if (run_or_spec is None) == (model_id is None):
        raise OptionError("rl evaluate", "it judges one thing", "Give a run, a spec, or --model-id N.")
    if model_id is not None:
        _evaluate_model(session, model_id, judging)
    elif names_a_run(str(run_or_spec)):
        _evaluate_run(session, str(run_or_spec), judging)
    else:
        _evaluate_spec(session, str(run_or_spec), judging)


def _evaluate_model(session: Session, model_id: int, judging: Judging) -> None:
    if judging.checkpoint is not None:
        raise OptionError("options --model-id and --checkpoint", "each names a policy", "Give one of them.")
    arguments, sources = stored_arguments(session)
    window, settings = judging.window, session.settings

    from alphaswarm_rl.runtime.model_evaluation import evaluate_model

    result, validation = evaluate_model(
        model_id, settings, overrides=sources, window=window, strict=judging.strict, **arguments
    )
    failed = [] if validation is None else [check for check in validation.checks if not check.passed]
    give_result(
        session,
        result,
        model_id=model_id,
        validated=None if validation is None else validation.passed,
        profile=None if validation is None else validation.profile,
        gates_failed={check.gate: check.reason for check in failed},
    )


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

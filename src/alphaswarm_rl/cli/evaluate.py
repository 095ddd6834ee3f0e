"""`rl evaluate` and `rl replay`."""

from __future__ import annotations

from typing import Any

import click

from alphaswarm_rl.cli.results import give_run, judging_options
from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.verb import verb


@verb("evaluate")
@click.argument("target", metavar="[RUN_OR_SPEC]", required=False)
@click.option(
    "--model-id", type=int, metavar="N", help="Judge a model of the registry instead, and run its gates again."
)
@click.option("--baselines", is_flag=True, help="Judge cash, 1/N and other rules in the same way, beside it.")
@judging_options
def evaluate(session: Session, **chosen: Any) -> None:
    """Judge a run's policy, or a spec's, on the evaluation window.

    RUN_OR_SPEC is a run (its id, the beginning of it, or latest: the newest that has a policy), a YAML file or the name
    of a preset. A run is judged under its stored version; a spec needs --checkpoint, unless its agent trains nothing.
    --seed, --episodes and --deterministic are arguments of the new run and change no version; a run takes no other
    option of the spec. --model-id N, instead, judges a model of the registry, adds what is found to it and runs its
    gates again. --baselines judges classical rules on the same window too, each in a run of its own unless an earlier
    one did just that; rl compare shows how sure the differences are.

    Args:
        session: This call.
        chosen: Fields of the request, which says what each means.
    """
    from alphaswarm_rl.operations.evaluate import EvaluateRequest, evaluate

    request = EvaluateRequest(**chosen, options=session.flags)
    give_run(session, evaluate(session.settings, request, caller=session.caller))


@verb("replay")
@click.argument("run")
@judging_options
def replay(session: Session, **chosen: Any) -> None:
    """Feed a run's policy another window or seed, under its pinned version.

    RUN is a run's id, the beginning of it, or latest: the newest that has a policy. The new run has it as its parent
    and the same version.

    Args:
        session: This call.
        chosen: Fields of the request, which says what each means.
    """
    from alphaswarm_rl.operations.evaluate import ReplayRequest, replay

    request = ReplayRequest(**chosen, options=session.flags)
    give_run(session, replay(session.settings, request, caller=session.caller))

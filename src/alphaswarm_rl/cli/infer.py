"""`rl infer`."""

from __future__ import annotations

import sys
from typing import Any

import click

from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.text import as_json_line
from alphaswarm_rl.cli.verb import verb


@verb("infer")
@click.option("--run", metavar="RUN", help="The run whose policy answers; default the newest with a checkpoint.")
@click.option("--load-best", is_flag=True, help="The best validated model of the registry answers.")
@click.option("--alias", metavar="NAME", help="The model that has this alias answers, such as champion.")
@click.option("--model-id", type=int, metavar="N", help="This model of the registry answers.")
@click.option("--unvalidated", is_flag=True, help="With --model-id: even when it did not pass its latest validation.")
@click.option(
    "--watch", is_flag=True, help="Change to a better model, or another of the alias, as soon as there is one."
)
@click.option("--scope", metavar="SCOPE", help="Which models are meant, where there are several scopes.")
@click.option("--deterministic/--no-deterministic", default=None, help="How it acts; default as the spec evaluates.")
@click.option(
    "--episodes",
    type=click.IntRange(min=1),
    help="Play that many episodes instead of reading stdin: one line per step.",
)
@click.option(
    "--env",
    "env_id",
    metavar="ID",
    help="With --load-best: the environment of the models. Else, with --episodes: another one of the same spaces.",
)
def infer(session: Session, **chosen: Any) -> None:
    """Answer observations with a trained policy, one JSON line each.

    Reads one observation per line from stdin: an array, a number or a mapping, or {"observation": ...,
    "episode_start": true}. Every answer has the action and the SHA-256 of the checkpoint that gave it; one of a model
    of the registry has its model_id too. A registered model also takes a batch of observations on one line. A line that
    cannot be answered has its error as the answer, the next ones are answered, and the exit code is 2.

    Args:
        session: This call.
        chosen: Fields of the request, which says what each means.
    """
    from alphaswarm_rl.operations.infer import InferRequest, infer

    request = InferRequest(**chosen, options=session.flags)
    for answer in infer(session.settings, request, lines=sys.stdin, caller=session.caller):
        session.write(as_json_line(answer))

"""`rl infer`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.text import as_json_line
from alphaswarm_rl.cli.verb import inference_options, verb
from alphaswarm_rl.core.errors import AlphaSwarmError, OptionError, RunError

if TYPE_CHECKING:
    from alphaswarm_rl.runtime.inference import Inference

_WRAPPED = {"observation", "episode_start"}


@verb("infer", table=inference_options())
@click.option("--run", metavar="RUN", help="The run whose policy answers; default the newest with a checkpoint.")
@click.option("--deterministic/--no-deterministic", default=None, help="How it acts; default as the spec evaluates.")
@click.option(
    "--episodes",
    type=click.IntRange(min=1),
    help="Play that many episodes instead of reading stdin: one line per step.",
)
@click.option("--env", "env_id", metavar="ID", help="With --episodes: another environment of the same spaces.")
def infer(
    session: Session, run: str | None, deterministic: bool | None, episodes: int | None, env_id: str | None
) -> None:
    """Answer observations with a trained policy, one JSON line each.

    Reads one observation per line from stdin: an array, a number or a mapping, or {"observation": ...,
    "episode_start": true}. Every answer has the action and the SHA-256 of the checkpoint that gave it.

    Args:
        session: This call.
        run: The run whose policy answers.
        deterministic: Whether it acts without drawing.
        episodes: How many episodes are rolled out.
        env_id: The environment they are rolled out in.
    """
    if env_id is not None and episodes is None:
        raise OptionError(
            "option --env", "observations come from stdin", "Give --episodes N to roll out episodes in it."
        )
    if run is not None and "infer.modelPath" in session.flags:
        raise OptionError("options --run and --model-path", "each names a policy", "Give one of them.")
    settings = session.settings

    from alphaswarm_rl.runtime.inference import Inference

    inference = Inference.open(settings, run=run)
    try:
        inference.deterministic = inference.spec.evaluation.deterministic if deterministic is None else deterministic
        if episodes is None:
            _answer_lines(session, inference, sys.stdin)
        else:
            for line in inference.roll_out(episodes, env_id=env_id):
                session.write(as_json_line(line))
    finally:
        inference.close()


def _answer_lines(session: Session, inference: Inference, lines: Iterable[str]) -> None:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        observation, starts = _parse(line, number)
        try:
            answer = inference.answer(observation, episode_start=starts)
        except AlphaSwarmError as error:
            raise RunError(f"line {number}: {error.what}", error.why, error.remedy) from error
        session.write(as_json_line(answer.as_dict()))


def _parse(line: str, number: int) -> tuple[Any, bool]:
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        raise RunError(f"line {number}", f"it is not JSON: {error}", "Write one observation per line.") from error
    # A Dict space may have a key of that name too; only a mapping of exactly these keys is taken for a wrapping.
    if not isinstance(value, dict) or "observation" not in value or not set(value) <= _WRAPPED:
        return value, False
    starts = value.get("episode_start", False)
    if not isinstance(starts, bool):
        raise RunError(f"line {number}", f"episode_start is {starts!r}", "Write true or false.")
    return value["observation"], starts

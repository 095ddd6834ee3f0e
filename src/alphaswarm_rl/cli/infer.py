"""`rl infer`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import click

from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.text import as_json_line
from alphaswarm_rl.cli.verb import verb
from alphaswarm_rl.core.errors import AlphaSwarmError, OptionError, RunError

#: How many wrong lines are named at the end.
_SHOWN = 5
_WRAPPED = {"observation", "episode_start"}
#: Whoever asks on standard input, for a policy that remembers.
_CLIENT = "stdin"


@dataclass(frozen=True)
class _Wanted:
    """Which model of the registry answers, and how."""

    load_best: bool
    model_id: int | None
    alias: str | None
    scope: str | None
    env_id: str | None
    watch: bool
    unvalidated: bool

    @property
    def of_registry(self) -> bool:
        """Whether a model of the registry is wanted at all."""
        return self.load_best or self.model_id is not None or self.alias is not None


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
def infer(
    session: Session,
    run: str | None,
    load_best: bool,
    alias: str | None,
    model_id: int | None,
    unvalidated: bool,
    watch: bool,
    scope: str | None,
    deterministic: bool | None,
    episodes: int | None,
    env_id: str | None,
) -> None:
    """Answer observations with a trained policy, one JSON line each.

    Reads one observation per line from stdin: an array, a number or a mapping, or {"observation": ...,
    "episode_start": true}. Every answer has the action and the SHA-256 of the checkpoint that gave it; one of a model
    of the registry has its model_id too. A registered model also takes a batch of observations on one line. A line that
    cannot be answered has its error as the answer, the next ones are answered, and the exit code is 2.

    Args:
        session: This call.
        run: The run whose policy answers.
        load_best: Whether the best validated model answers.
        alias: The alias whose model answers.
        model_id: The model that answers.
        unvalidated: Whether it may be one that did not pass.
        watch: Whether a better model takes over.
        scope: Which models are meant.
        deterministic: Whether it acts without drawing.
        episodes: How many episodes are rolled out.
        env_id: The environment of the models, or the one that episodes are rolled out in.
    """
    wanted = _Wanted(load_best, model_id, alias, scope, env_id, watch, unvalidated)
    _refuse_wrong(wanted, run, episodes, named_by_path="infer.modelPath" in session.flags)
    if wanted.of_registry:
        _serve(session, wanted, episodes, deterministic)
        return

    from alphaswarm_rl.inference.inference import Inference

    inference = Inference.open(session.settings, run=run)
    try:
        inference.deterministic = inference.spec.evaluation.deterministic if deterministic is None else deterministic
        if episodes is None:
            _answer_lines(
                session, lambda seen, starts: inference.answer(seen, episode_start=starts).as_dict(), sys.stdin
            )
        else:
            for line in inference.roll_out(episodes, env_id=env_id):
                session.write(as_json_line(line))
    finally:
        inference.close()


def _refuse_wrong(wanted: _Wanted, run: str | None, episodes: int | None, *, named_by_path: bool) -> None:
    named = {
        "--run": run is not None,
        "--model-path": named_by_path,
        "--load-best": wanted.load_best,
        "--alias": wanted.alias is not None,
        "--model-id": wanted.model_id is not None,
    }
    given = [name for name, is_given in named.items() if is_given]
    if len(given) > 1:
        raise OptionError(f"options {' and '.join(given)}", "each names a policy", "Give one of them.")
    if wanted.env_id is not None and episodes is None and not wanted.load_best:
        raise OptionError(
            "option --env",
            "observations come from stdin",
            "Give --episodes N to roll out episodes in it, or --load-best to choose among models.",
        )
    if wanted.env_id is not None and (wanted.alias is not None or wanted.model_id is not None):
        raise OptionError("option --env", "the model is named already", "Leave it out.")
    for flag, is_given, needs in (
        ("--watch", wanted.watch, wanted.load_best or wanted.alias is not None),
        ("--scope", wanted.scope is not None, wanted.of_registry),
    ):
        if is_given and not needs:
            raise OptionError(f"option {flag}", "it is for models of the registry", "Give --load-best or --alias NAME.")
    if wanted.unvalidated and wanted.model_id is None:
        raise OptionError("option --unvalidated", "it is for one model", "Give --model-id N.")
    if wanted.watch and episodes is not None:
        raise OptionError("option --watch", "episodes are played by one model", "Leave --episodes or --watch out.")


def _serve(session: Session, wanted: _Wanted, episodes: int | None, deterministic: bool | None) -> None:
    settings = session.settings

    from alphaswarm_rl.inference.policy_server import PolicyServer
    from alphaswarm_rl.models.registry import ModelRegistry

    scope = None
    if wanted.scope is not None:
        with ModelRegistry.open(settings, make=False) as registry:
            scope = registry.scope(wanted.scope)
    with PolicyServer.open(
        settings,
        model_id=wanted.model_id,
        alias=wanted.alias,
        scope=scope,
        env_id=wanted.env_id,
        watch=wanted.watch,
        unvalidated=wanted.unvalidated,
        deterministic=deterministic,
    ) as server:
        session.notice(f"model {server.model.id} answers, of scope {server.scope}")
        if episodes is None:
            _answer_lines(
                session,
                lambda seen, starts: server.answer(seen, client=_CLIENT, episode_start=starts).as_dict(),
                sys.stdin,
            )
        else:
            for line in server.policy.roll_out(episodes, deterministic=server.deterministic):
                session.write(as_json_line({**line, "model_id": server.model.id}))


def _answer_lines(session: Session, answer: Callable[[Any, bool], dict[str, Any]], lines: Iterable[str]) -> None:
    """Answers line after line; one that cannot be answered has its error as the answer, and the next ones go on."""
    wrong = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            given = answer(*_parse(line))
        except AlphaSwarmError as error:
            wrong.append(number)
            given = {"line": number, "error": error.as_dict()}
            session.notice(f"line {number}: {error}")
        session.write(as_json_line(given))
    if wrong:
        shown = ", ".join(map(str, wrong[:_SHOWN])) + (" ..." if len(wrong) > _SHOWN else "")
        why = f"{len(wrong)} could not be answered: {shown}"
        raise RunError("the lines of stdin", why, "Each has its error in place of an answer.")


def _parse(line: str) -> tuple[Any, bool]:
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        raise RunError("the line", f"it is not JSON: {error}", "Write one observation per line.") from error
    # A Dict space may have a key of that name too; only a mapping of exactly these keys is taken for a wrapping.
    if not isinstance(value, dict) or "observation" not in value or not set(value) <= _WRAPPED:
        return value, False
    starts = value.get("episode_start", False)
    if not isinstance(starts, bool):
        raise RunError("the line", f"episode_start is {starts!r}", "Write true or false.")
    return value["observation"], starts

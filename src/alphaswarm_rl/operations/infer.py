"""A trained policy that answers observations, or plays episodes.

The operation gives an iterator: one answer for each line that comes in, or one for each step that is played, as soon as
it is known. A line that cannot be answered has its error as the answer, and the next ones are answered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import TYPE_CHECKING, TypeAlias

from alphaswarm_rl.core.errors import AlphaSwarmError, OptionError, RunError
from alphaswarm_rl.core.json import load_json
from alphaswarm_rl.core.types import JsonMapping, JsonObject
from alphaswarm_rl.operations.data import Count, Data
from alphaswarm_rl.operations.events import NOBODY, Caller, Listener, Notice
from alphaswarm_rl.operations.operation import operation
from alphaswarm_rl.settings import Settings

if TYPE_CHECKING:
    from alphaswarm_rl.inference.policy_server import PolicyServer

#: How many wrong lines are named at the end.
_SHOWN = 5
_WRAPPED = {"observation", "episode_start"}
#: Whoever asks on standard input, for a policy that remembers.
_CLIENT = "stdin"


class InferRequest(Data):
    """Which policy answers, and how.

    Attributes:
        run: The run whose policy answers; None, with no model named: the newest with a checkpoint.
        load_best: Whether the best validated model of the registry answers.
        alias: The alias whose model answers.
        model_id: The model that answers.
        unvalidated: Whether `model_id` may be one that did not pass its latest validation.
        watch: Whether a better model, or another of the alias, takes over.
        scope: Which models are meant, where there are several scopes.
        deterministic: Whether it acts without drawing; None: as the spec evaluates.
        episodes: How many episodes are played instead of answering lines.
        env_id: The environment of the models, or the one that episodes are played in.
        options: Options of the table by key.
    """

    run: str | None = None
    load_best: bool = False
    alias: str | None = None
    model_id: int | None = None
    unvalidated: bool = False
    watch: bool = False
    scope: str | None = None
    deterministic: bool | None = None
    episodes: Count | None = None
    env_id: str | None = None
    options: JsonMapping = field(default_factory=dict)

    @property
    def of_registry(self) -> bool:
        """Whether a model of the registry answers."""
        return self.load_best or self.model_id is not None or self.alias is not None


class Answered(Data, unless_null=("model_id",)):
    """The action for one observation, or one per observation of a batch."""

    action: object
    model_id: int | None
    checkpoint_sha256: str


class PlayedStep(Data, unless_null=("model_id",)):
    """One step of an episode that the policy plays."""

    episode: int
    step: int
    action: object
    reward: float
    ends: bool
    checkpoint_sha256: str
    model_id: int | None = None


class Unanswered(Data):
    """A line that could not be answered: its number, and why."""

    line: int
    error: JsonObject


Answer: TypeAlias = Answered | PlayedStep | Unanswered


@operation("infer")
def infer(
    settings: Settings, request: InferRequest, *, lines: Iterable[str] = (), caller: Caller = NOBODY
) -> Iterator[Answer]:
    """Answers observations with a trained policy, or plays episodes with it.

    Args:
        settings: The device, and where everything is.
        request: Which policy, and how.
        lines: One observation each, as JSON: an array, a number or a mapping, or `{"observation": ...,
            "episode_start": true}`.
        caller: Hears which model answers, and of lines that cannot be answered.
    """
    _refuse_two_policies(request)
    _refuse_pointless(request)
    if settings.infer.offline:
        caller.listen(Notice("offline: answers are given whatever the kill switch says"))
    return (_serve_model if request.of_registry else _serve_run)(settings, request, lines, caller.listen)


def _refuse_two_policies(request: InferRequest) -> None:
    named = {
        "--run": request.run is not None,
        "--model-path": "infer.modelPath" in request.options,
        "--load-best": request.load_best,
        "--alias": request.alias is not None,
        "--model-id": request.model_id is not None,
    }
    given = [name for name, is_given in named.items() if is_given]
    if len(given) > 1:
        raise OptionError(f"options {' and '.join(given)}", "each names a policy", "Give one of them.")


def _refuse_pointless(request: InferRequest) -> None:
    """Refuses what would have no effect beside the rest."""
    has_env, by_name = request.env_id is not None, request.alias is not None or request.model_id is not None
    of_registry = ("it is for models of the registry", "Give --load-best or --alias NAME.")
    for flag, is_wrong, why, remedy in (
        (
            "--env",
            has_env and request.episodes is None and not request.load_best,
            "observations come from stdin",
            "Give --episodes N to roll out episodes in it, or --load-best to choose among models.",
        ),
        ("--env", has_env and by_name, "the model is named already", "Leave it out."),
        ("--watch", request.watch and not (request.load_best or request.alias is not None), *of_registry),
        ("--scope", request.scope is not None and not request.of_registry, *of_registry),
        (
            "--unvalidated",
            request.unvalidated and request.model_id is None,
            "it is for one model",
            "Give --model-id N.",
        ),
        (
            "--watch",
            request.watch and request.episodes is not None,
            "episodes are played by one model",
            "Leave --episodes or --watch out.",
        ),
    ):
        if is_wrong:
            raise OptionError(f"option {flag}", why, remedy)


def _serve_run(settings: Settings, request: InferRequest, lines: Iterable[str], listen: Listener) -> Iterator[Answer]:
    from alphaswarm_rl.inference.policy_server import PolicyServer

    with PolicyServer.of_run(settings, run=request.run, deterministic=request.deterministic) as server:
        yield from _answers(server, request, lines, listen, env_id=request.env_id)


def _serve_model(settings: Settings, request: InferRequest, lines: Iterable[str], listen: Listener) -> Iterator[Answer]:
    from alphaswarm_rl.inference.policy_server import PolicyServer

    with PolicyServer.open(
        settings,
        model_id=request.model_id,
        alias=request.alias,
        scope=request.scope,
        env_id=request.env_id,
        watch=request.watch,
        unvalidated=request.unvalidated,
        deterministic=request.deterministic,
    ) as server:
        listen(Notice(f"model {server.model.id} answers, of scope {server.scope}"))
        yield from _answers(server, request, lines, listen, env_id=None)


def _answers(
    server: PolicyServer, request: InferRequest, lines: Iterable[str], listen: Listener, *, env_id: str | None
) -> Iterator[Answer]:
    """The steps of the episodes that are played, or an answer for each line; at the end the wrong ones are an error."""
    if request.episodes is not None:
        for step in server.roll_out(request.episodes, env_id=env_id):
            yield PlayedStep(**step)
        return
    wrong = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            observation, starts = _parse(line)
            found = server.answer(observation, client=_CLIENT, episode_start=starts)
            answered: Answer = Answered(found.actions.tolist(), found.model_id, found.checkpoint_sha256)
        except AlphaSwarmError as error:
            wrong.append(number)
            listen(Notice(f"line {number}: {error}"))
            answered = Unanswered(number, error.as_dict())
        yield answered
    if wrong:
        shown = ", ".join(map(str, wrong[:_SHOWN])) + (" ..." if len(wrong) > _SHOWN else "")
        why = f"{len(wrong)} could not be answered: {shown}"
        raise RunError("the lines of stdin", why, "Each has its error in place of an answer.")


def _parse(line: str) -> tuple[object, bool]:
    """An observation, and whether an episode starts with it."""
    try:
        value = load_json(line)
    except ValueError as error:
        raise RunError("the line", f"it is not JSON: {error}", "Write one observation per line.") from error
    # A Dict space may have a key of that name too; only a mapping of exactly these keys is taken for a wrapping.
    if not isinstance(value, dict) or "observation" not in value or not set(value) <= _WRAPPED:
        return value, False
    starts = value.get("episode_start", False)
    if not isinstance(starts, bool):
        raise RunError("the line", f"episode_start is {starts!r}", "Write true or false.")
    return value["observation"], starts

"""Judging a policy: of a run, of a spec or of a registered model; and replaying a run's on another window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import TypeAdapter, ValidationError

from alphaswarm_rl.core.errors import OptionError
from alphaswarm_rl.core.types import JsonMapping, JsonObject
from alphaswarm_rl.core.window import Window
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.operations.baselines import JudgedBaseline, judge_baselines
from alphaswarm_rl.operations.data import Data
from alphaswarm_rl.operations.events import NOBODY, Caller, Progress
from alphaswarm_rl.operations.judged_curves import judged_evaluation
from alphaswarm_rl.operations.operation import operation
from alphaswarm_rl.operations.overrides import resolve_arguments, resolve_both
from alphaswarm_rl.operations.references import names_a_run
from alphaswarm_rl.runtime.result import RunResult as RunResult
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.spec import RLExperimentSpec, load_spec
from alphaswarm_rl.spec.sections import IsoDate

_DATE = TypeAdapter(IsoDate)


class Judging(Data, kw_only=True):
    """How a policy is judged.

    Attributes:
        checkpoint: `best`, a step or a folder; None takes the run's last.
        start: First date of the window; None takes the version's.
        end: First date after the window; None takes the version's.
        strict: Whether components that changed since the version was stored are refused.
        options: Options of the table by key; of the spec's, a stored version takes seed, episodes and deterministic.
    """

    checkpoint: str | None = None
    start: str | None = None
    end: str | None = None
    strict: bool = False
    options: JsonMapping = field(default_factory=dict)

    @property
    def window(self) -> Window | None:
        """The window that the dates mean; None when none was given."""
        return Window(_date("--start", self.start), _date("--end", self.end)) or None


class EvaluateRequest(Judging):
    """What is judged: exactly one of the two.

    Attributes:
        target: A run, a YAML file or the name of a preset.
        model_id: A model of the registry.
        baselines: Whether classical rules are judged in the same way, beside a run's policy or a spec's.
    """

    target: str | None = None
    model_id: int | None = None
    baselines: bool = False


class ReplayRequest(Judging):
    """Whose policy is replayed.

    Attributes:
        run: The run: its id, the beginning of it, or latest.
    """

    run: str


@dataclass(frozen=True, kw_only=True)
class ModelEvaluation(RunResult):
    """The run that judged a model, and what its gates said then; null where the run was halted before it knew anything.

    Attributes:
        model_id: The model.
        validated: Whether it passed.
        profile: Which gates it had to pass.
        gates_failed: Why not, by gate.
    """

    model_id: int
    validated: bool | None = None
    profile: str | None = None
    gates_failed: Mapping[str, str] = field(default_factory=dict)

    @property
    def summary(self) -> JsonObject:
        """What there is to say of the run, and of the model."""
        own = ("model_id", "validated", "profile", "gates_failed")
        return {**super().summary, **{name: getattr(self, name) for name in own}}


@dataclass(frozen=True, kw_only=True)
class EvaluationBesideBaselines(RunResult):
    """The run that judged a policy, and the rules that were judged beside it.

    Attributes:
        baselines: The rules.
    """

    baselines: tuple[JudgedBaseline, ...]


@operation("evaluate", changes=True)
def evaluate(
    settings: Settings, request: EvaluateRequest, *, caller: Caller = NOBODY
) -> RunResult | ModelEvaluation | EvaluationBesideBaselines:
    """Judges a run's policy, a spec's or a model's on the evaluation window."""
    if request.model_id is not None and request.baselines:
        raise OptionError(
            "options --model-id and --baselines", "baselines are judged beside a run or a spec", "Leave one out."
        )
    if request.model_id is not None and request.target is None:
        return _evaluate_model(settings, request.model_id, request, caller)
    if request.target is None or request.model_id is not None:
        raise OptionError("rl evaluate", "it judges one thing", "Give a run, a spec, or --model-id N.")
    spec = None
    if names_a_run(request.target):
        overrides = resolve_arguments(request.options, caller)
    else:
        spec, overrides = resolve_both(lambda: settings, load_spec(request.target), request.options, caller)
    window = request.window

    from alphaswarm_rl.runtime import RLRuntime

    if spec is None:
        runtime = RLRuntime.from_run(request.target, settings, overrides=overrides.sources, verb="evaluate")
    else:
        runtime = RLRuntime(spec, settings, overrides=overrides.sources)
    arguments = overrides.arguments
    result = runtime.evaluate(checkpoint=request.checkpoint, window=window, strict=request.strict, **arguments)
    if not request.baselines or result.status != "completed":
        return result
    return _beside_baselines(settings, runtime.spec, result, caller)


@operation("replay", changes=True)
def replay(settings: Settings, request: ReplayRequest, *, caller: Caller = NOBODY) -> RunResult:
    """Feeds a run's policy another window or seed, under its pinned version, in a new run that has it as its parent."""
    overrides, window = resolve_arguments(request.options, caller), request.window

    from alphaswarm_rl.runtime import RLRuntime

    runtime = RLRuntime.from_run(request.run, settings, overrides=overrides.sources, verb="replay")
    return runtime.replay(window, checkpoint=request.checkpoint, strict=request.strict, **overrides.arguments)


def _beside_baselines(
    settings: Settings, spec: RLExperimentSpec, result: RunResult, caller: Caller
) -> EvaluationBesideBaselines:
    with Ledger.open(settings) as ledger:
        run = ledger.run(result.run_id)
        judged = run, judged_evaluation(ledger, run)
    found = judge_baselines(settings, spec, judged, lambda text: caller.listen(Progress(text)))
    return EvaluationBesideBaselines(**vars(result), baselines=found)


def _evaluate_model(settings: Settings, model_id: int, judging: Judging, caller: Caller) -> ModelEvaluation:
    if judging.checkpoint is not None:
        raise OptionError("options --model-id and --checkpoint", "each names a policy", "Give one of them.")
    overrides, window = resolve_arguments(judging.options, caller), judging.window

    from alphaswarm_rl.runtime.model_runs import evaluate_model

    run, validation = evaluate_model(
        model_id, settings, overrides=overrides.sources, window=window, strict=judging.strict, **overrides.arguments
    )
    if validation is None:
        return ModelEvaluation(**vars(run), model_id=model_id)
    failed = {check.gate: check.reason for check in validation.checks if not check.passed}
    return ModelEvaluation(
        **vars(run),
        model_id=model_id,
        validated=validation.passed,
        profile=validation.profile,
        gates_failed=failed,
    )


def _date(flag: str, text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return _DATE.validate_python(text)
    except ValidationError as error:
        raise OptionError(
            f"option {flag} {text!r}", "it is not an ISO date", "Write one such as 2024-01-31."
        ) from error

"""Backtesting a policy on an engine: of a run, of a spec, of a registered model, or a rule in their environment."""

from __future__ import annotations

from typing import Literal

from alphaswarm_rl.core.errors import OptionError
from alphaswarm_rl.operations.evaluate import Judging
from alphaswarm_rl.operations.events import NOBODY, Caller
from alphaswarm_rl.operations.operation import operation
from alphaswarm_rl.operations.overrides import resolve_arguments
from alphaswarm_rl.operations.references import names_a_run, spec_of
from alphaswarm_rl.options.resolve import BACKTESTING
from alphaswarm_rl.runtime.result import RunResult as RunResult
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.spec import RLExperimentSpec


class BacktestRequest(Judging):
    """What is backtested, and on which engine.

    Attributes:
        target: A run, a YAML file or the name of a preset.
        model_id: A model of the registry, instead.
        policy: A rule that takes the place of the agent, such as equal_weight.
        engine: Alias of the engine.
        sizing: When weights become units; None: as the environment has it.
    """

    target: str | None = None
    model_id: int | None = None
    policy: str | None = None
    engine: str = "native"
    sizing: Literal["at_fill", "at_decision"] | None = None


@operation("backtest", changes=True)
def backtest(settings: Settings, request: BacktestRequest, *, caller: Caller = NOBODY) -> RunResult:
    """Plays a policy on a backtest engine over the whole window, in a run of its own with positions and fills."""
    _refuse_two_policies(request)
    overrides, window = resolve_arguments(request.options, caller, BACKTESTING), request.window
    given = overrides.arguments
    chosen: BacktestArguments = {
        "sizing": request.sizing,
        "seed": given.get("seed"),
        "window": window,
        "deterministic": given.get("deterministic"),
        "strict": request.strict,
    }

    from alphaswarm_rl.runtime import RLRuntime
    from alphaswarm_rl.runtime.model_runs import BacktestArguments, backtest_model

    if request.model_id is not None:
        return backtest_model(request.model_id, settings, request.engine, overrides=overrides.sources, **chosen)
    assert request.target is not None
    if request.policy is None and names_a_run(request.target):
        runtime = RLRuntime.from_run(request.target, settings, overrides=overrides.sources, verb="backtest")
    else:
        spec = spec_of(lambda: settings, request.target)
        spec = spec if request.policy is None else _with_rule(spec, request.policy)
        runtime = RLRuntime(spec, settings, overrides=overrides.sources)
    return runtime.backtest(request.engine, checkpoint=request.checkpoint, **chosen)


def _refuse_two_policies(request: BacktestRequest) -> None:
    if (request.target is None) == (request.model_id is None):
        raise OptionError("rl backtest", "it plays one policy", "Give a run, a spec, or --model-id N.")
    named = {
        "--model-id": request.model_id is not None,
        "--checkpoint": request.checkpoint is not None,
        "--policy": request.policy is not None,
    }
    given = [flag for flag, is_given in named.items() if is_given]
    if len(given) > 1:
        raise OptionError(f"options {' and '.join(given)}", "each names a policy", "Give one of them.")


def _with_rule(spec: RLExperimentSpec, policy: str) -> RLExperimentSpec:
    """The same experiment with a rule in place of the agent."""
    data = spec.as_data()
    data |= {"name": f"{spec.name}: {policy}", "slug": "", "agent": {"class": policy}}
    data["training"] = {**data["training"], "advantage": None}
    return RLExperimentSpec.from_data(data)

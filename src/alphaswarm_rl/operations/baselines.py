"""Classical rules beside a policy: the same experiment, judged in the same way, with a rule in place of the agent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from alphaswarm_rl.core.errors import AlphaSwarmError, is_of_the_system
from alphaswarm_rl.core.judgement import Judgement, judgement_differences
from alphaswarm_rl.core.types import JsonMapping, JsonObject
from alphaswarm_rl.core.window import Window
from alphaswarm_rl.envs.trading import TradingComponent, margin_of
from alphaswarm_rl.ledger import EvaluationRow, Ledger, RunRow
from alphaswarm_rl.operations.data import Data
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.spec import RLExperimentSpec

#: Orders in money, in fractions of shares and without a limit that binds: what is held between rebalancings is not
#: traded. Target weights would be restored at every fill.
_ORDERS = {"class": "integer_shares", "kwargs": {"hmax": 1e9, "unit": "money", "whole": False}}
#: Orders are bound by cash: an account that may owe takes weights, as one does whose decisions make orders of weights.
_WEIGHTS = {"class": "continuous_weights"}
#: By what people call them, the policy of each: to order nothing is to keep the cash.
_OF_TRADING = {
    "cash": "constant",
    **{name: name for name in ("equal_weight", "buy_and_hold", "minimum_variance", "mean_variance", "random")},
}
_OF_OTHERS = {name: name for name in ("constant", "random")}


class JudgedBaseline(Data):
    """A rule that was judged beside a policy.

    Attributes:
        name: What it is called.
        run_id: The run that judged it, a new one or an earlier one that did just that; null where it could not be.
        metrics: What was measured.
        error: Why it could not be judged.
    """

    name: str
    run_id: str | None = None
    metrics: JsonMapping = field(default_factory=dict)
    error: str | None = None


def baseline_names(spec: RLExperimentSpec) -> tuple[str, ...]:
    """The rules that fit a spec's environment."""
    return tuple(_OF_TRADING if _trades(spec) else _OF_OTHERS)


def baseline_spec(spec: RLExperimentSpec, name: str) -> RLExperimentSpec:
    """The same experiment with a rule in place of the agent; in a market it trades by orders, or weights."""
    data = spec.as_data()
    trades = _trades(spec)
    data |= {"name": f"{spec.name}: {name}", "slug": "", "agent": {"class": (_OF_TRADING | _OF_OTHERS)[name]}}
    data["training"] = {**data["training"], "advantage": None}
    if trades and name != "random":
        data["action"] = _WEIGHTS if _takes_weights(spec) else _ORDERS
        data["env"] = {**data["env"], "kwargs": _without_replaced_action(spec, data["env"]["kwargs"])}
    if name == "cash" and _takes_weights(spec):
        data["agent"]["kwargs"] = {"action": 0}  # the middle of weights, which the policy takes by itself, buys
    return RLExperimentSpec.from_data(data)


def judge_baselines(
    settings: Settings,
    spec: RLExperimentSpec,
    judged: tuple[RunRow, EvaluationRow],
    listen: Callable[[str], None],
) -> tuple[JudgedBaseline, ...]:
    """Judges every rule that fits as a run was judged: on its window, with its seed, as many episodes.

    A rule that was judged in just that way before, on the same bars, is not judged again.

    Args:
        settings: Where runs are.
        spec: The run's spec.
        judged: The run beside which they are judged, and its evaluation.
        listen: Hears what is being done.
    """
    return tuple(
        _judge(settings, baseline_spec(spec, name), name, spec, judged, listen) for name in baseline_names(spec)
    )


def _judge(
    settings: Settings,
    rule: RLExperimentSpec,
    name: str,
    spec: RLExperimentSpec,
    judged: tuple[RunRow, EvaluationRow],
    listen: Callable[[str], None],
) -> JudgedBaseline:
    from alphaswarm_rl.runtime import RLRuntime
    from alphaswarm_rl.runtime.evaluate import Arguments

    run, evaluation = judged
    arguments = Arguments(
        seed=run.seed,
        window=_window(run, evaluation, spec),
        episodes=evaluation.episodes,
        deterministic=evaluation.deterministic,
    )
    known = _judged_before(settings, rule, arguments.as_dict(), evaluation.judgement)
    if known is not None:
        return JudgedBaseline(name, known.id, known.result_summary)
    listen(f"judging {name} ...")
    try:
        result = RLRuntime(rule, settings).evaluate(
            seed=run.seed,
            window=arguments.window,
            episodes=evaluation.episodes,
            deterministic=evaluation.deterministic,
        )
    except AlphaSwarmError as error:
        if is_of_the_system(error):  # a disk that fails says nothing about the rule
            raise
        return JudgedBaseline(name, error=str(error))
    if result.status != "completed":
        return JudgedBaseline(name, error=f"its run {result.run_id} was {result.status}: {result.halt_reason}")
    return JudgedBaseline(name, result.run_id, result.metrics)


def _window(run: RunRow, evaluation: EvaluationRow, spec: RLExperimentSpec) -> Window | None:
    """The dates that an evaluation was asked for; None where there are none."""
    if evaluation.phase == "validation":
        return spec.training.validation_window or None
    given = run.arguments.get("window")
    return Window(*given) if given else spec.evaluation.window or None


def _judged_before(
    settings: Settings, rule: RLExperimentSpec, arguments: JsonObject, judgement: Judgement | None
) -> RunRow | None:
    """The newest run that judged a rule in that way, on that judgement."""
    conditions = (f"exec_hash = {rule.exec_hash}", "target = evaluate", "status = completed")
    with Ledger.open(settings) as ledger:
        for row, _ in ledger.listed_runs(["id"], where=conditions, limit=None):
            evaluations = ledger.evaluations(row.id) if row.arguments == arguments else []
            if evaluations and not judgement_differences(judgement, evaluations[-1].judgement):
                return row
    return None


def _trades(spec: RLExperimentSpec) -> bool:
    assert spec.env is not None
    return "action" in spec.env.build().slots()


def _without_replaced_action(spec: RLExperimentSpec, kwargs: JsonMapping) -> JsonObject:
    """The parameters of an environment whose own action is replaced: it refuses those that would change nothing."""
    assert spec.env is not None
    by_slot = getattr(spec.env.build(), "parameters_of", {})
    kept = [name for slot, names in by_slot.items() if slot != "action" and not getattr(spec, slot) for name in names]
    return {name: value for name, value in kwargs.items() if name in kept or name not in by_slot.get("action", ())}


def _takes_weights(spec: RLExperimentSpec) -> bool:
    """Whether the account of a market may owe something, or its decisions make orders of weights."""
    assert spec.env is not None
    component = spec.env.build()
    if not isinstance(component, TradingComponent):
        return False
    return margin_of(component.config.margin).lends or component.config.sizing == "at_decision"

"""The demo: trains on real stocks, judges the agent beside classical rules, replays it, and asks what was recorded."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from alphaswarm_rl.core.contracts import CASH
from alphaswarm_rl.core.types import JsonObject
from alphaswarm_rl.core.window import Window
from alphaswarm_rl.inference.account import Account
from alphaswarm_rl.inference.policy_server import PolicyServer
from alphaswarm_rl.lake.queries import summary_of_run
from alphaswarm_rl.operations.baselines import baseline_spec
from alphaswarm_rl.operations.data import Count, Data
from alphaswarm_rl.operations.decide import Decided, DecideRequest, decided
from alphaswarm_rl.operations.events import NOBODY, Caller, Progress
from alphaswarm_rl.operations.operation import operation
from alphaswarm_rl.operations.run_steps import (
    AccountCurve,
    EquityQuery,
    Holdings,
    HoldingsQuery,
    account_curve,
    holdings,
)
from alphaswarm_rl.options.resolve import effective_spec
from alphaswarm_rl.runtime import RLRuntime, RunResult
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.spec import load_spec

_BASELINES = ("equal_weight", "buy_and_hold", "minimum_variance", "mean_variance", "random")
#: Dates that neither training nor any evaluation of the preset sees.
_REPLAYED = Window("1993-01-01", "1995-01-01")


class DemoRequest(Data):
    """How long the demo trains: in transitions."""

    timesteps: Count = 50_000


class JudgedRun(Data):
    """One line of the demo's tables: what was judged, its run, its metrics, and how long it took."""

    label: str
    run_id: str
    metrics: JsonObject
    seconds: float


class DemoResult(Data):
    """What the demo found.

    Attributes:
        window: The evaluation window.
        contest: The trained agent, then the baselines, on that window.
        verdict: What that says about the agent, in words.
        replays: The trained policy from its checkpoint: the same window again, then two replays of another.
        same_return: Whether the evaluation gave the same return as training's own.
        same_bytes: Whether both replays gave the same metrics, and all runs are of one version.
        recorded_steps: How many steps of the training run are in the tables.
        deepest_drawdown: The worst of the evaluation, and its date.
        held: What was held on that day, why, and at what cost.
        curve: The account in the evaluation.
        tomorrow: What the trained policy holds next, decided at the last bar of its evaluation.
    """

    window: str
    contest: tuple[JudgedRun, ...]
    verdict: str
    replays: tuple[JudgedRun, ...]
    same_return: bool
    same_bytes: bool
    recorded_steps: int
    deepest_drawdown: tuple[float, str] | None
    held: Holdings | None
    curve: AccountCurve | None
    tomorrow: Decided | None


@operation("demo", changes=True)
def demo(settings: Settings, request: DemoRequest, *, caller: Caller = NOBODY) -> DemoResult:
    """Trains on real stocks, judges the agent beside baselines, and replays it."""
    caller.listen(Progress(f"All state goes to {settings.home.absolute()}."))
    spec = effective_spec(load_spec("my_first_rl"), {"train.totalTimesteps": request.timesteps}, {}).spec
    trained, first = _timed("PPO", RLRuntime(spec, settings, progress=caller.progress).train)
    rules = [
        _timed(rule.replace("_", " "), RLRuntime(baseline_spec(spec, rule), settings).evaluate) for rule in _BASELINES
    ]
    policy = RLRuntime.from_run(trained.run_id, settings)
    again = _timed("the same window again", policy.evaluate)
    replays = [_timed(f"replay {_REPLAYED}", lambda: policy.replay(_REPLAYED)) for _ in range(2)]
    one, other = (result.metrics for result, _ in replays)
    versions = {result.version_id for result, _ in ((trained, first), again, *replays)}
    steps, worst = summary_of_run(settings, trained.run_id)
    curve = account_curve(settings, EquityQuery(trained.run_id, plot=True))
    contest = (first, *(row for _, row in rules))
    return DemoResult(
        window=str(spec.evaluation.window),
        contest=contest,
        verdict=_verdict(contest),
        replays=(again[1], *(row for _, row in replays)),
        same_return=again[0].metrics["total_reward"] == trained.metrics["total_reward"],
        same_bytes=one == other and len(versions) == 1,
        recorded_steps=steps,
        deepest_drawdown=worst,
        held=None if worst is None else _held(settings, trained.run_id, worst[1]),
        curve=curve,
        tomorrow=_tomorrow(settings, trained.run_id),
    )


def _tomorrow(settings: Settings, run_id: str) -> Decided | None:
    """What the policy decides at the last bar, holding what it held at the end of its evaluation."""
    last = holdings(settings, HoldingsQuery(run_id, phase="evaluate"))
    if last.ts is None:
        return None
    held = {row["symbol"]: row["quantity"] for row in last.holdings}
    account = Account(cash=held.pop(CASH), positions=held)
    with PolicyServer.of_run(settings, run=run_id) as server:
        return decided(server, DecideRequest(run_id, asof=last.ts.date().isoformat()), account)


def _held(settings: Settings, run_id: str, day: str) -> Holdings:
    return holdings(settings, HoldingsQuery(run_id, asof=day, phase="evaluate"))


def _timed(label: str, run: Callable[[], RunResult]) -> tuple[RunResult, JudgedRun]:
    started = time.perf_counter()
    result = run()
    return result, JudgedRun(label, result.run_id, result.metrics, time.perf_counter() - started)


def _verdict(contest: Sequence[JudgedRun]) -> str:
    """What the table says about the agent, in words."""
    sharpe, others = contest[0].metrics["sharpe"], [run for run in contest[1:] if run.metrics["sharpe"] is not None]
    if sharpe is None or not others:
        return "PPO or every rule has no Sharpe ratio, so nothing is compared: an account that never moves has none."
    best = max(others, key=lambda run: float(run.metrics["sharpe"]))
    against = f"{best.label} (Sharpe {sharpe:.2f} against {best.metrics['sharpe']:.2f})"
    if sharpe <= best.metrics["sharpe"]:
        verdict = f"PPO does not beat {against}: no edge shown."
    else:
        verdict = f"PPO is ahead of {against} on one seed and one window, which is no evidence of an edge."
    return f"{verdict} The stocks are survivors: every long portfolio of them looks good."

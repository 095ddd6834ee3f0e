"""Runs side by side: what each was measured at and how sure that is, were they judged alike, how do specs differ."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from alphaswarm_rl.core.errors import OptionError, nearest
from alphaswarm_rl.core.judgement import judgement_differences
from alphaswarm_rl.core.wording import PORTFOLIO_METRICS
from alphaswarm_rl.lake.catalog import Lake
from alphaswarm_rl.ledger import EvaluationRow, Ledger, RunRow
from alphaswarm_rl.operations.baselines import judge_baselines
from alphaswarm_rl.operations.data import Data
from alphaswarm_rl.operations.events import NOBODY, Caller, Notice, Progress
from alphaswarm_rl.operations.judged_curves import judged_curves, judged_evaluation
from alphaswarm_rl.operations.operation import RequestError, operation
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.spec import RLExperimentSpec
from alphaswarm_rl.spec.diff import ManyDifference, diff_many
from alphaswarm_rl.statistics.bootstrap import Interval
from alphaswarm_rl.statistics.curve_intervals import curve_intervals, mean_interval, periods_per_year

#: What is compared, by name, and whether more of it is better.
MEASURES: Mapping[str, bool] = {
    "mean_reward": True,
    **{name: name not in ("volatility", "turnover", "cost") for name in PORTFOLIO_METRICS},
}


class CompareRuns(Data):
    """Which runs are compared.

    Attributes:
        runs: The runs: their ids, beginnings of them, or latest.
        baselines: Whether classical rules are judged as the first run was, and compared too.
        sort: The measure that orders those which were judged alike, the best first; None keeps the order of the runs.
    """

    runs: tuple[str, ...]
    baselines: bool = False
    sort: str | None = None


class Measured(Data):
    """A measure with its bootstrap interval of 95 %; null where it is undefined, or the interval is not known."""

    value: float | None
    low: float | None = None
    high: float | None = None


class ComparedRun(Data):
    """A run in a comparison.

    Attributes:
        run_id: The run.
        label: What it is called: its name, or its agent.
        baseline: Whether it is a rule that was judged beside the others.
        phase: The phase that judged it.
        in_sample: Whether it was judged on what it was trained on; null where nobody can know.
        measures: What was measured, by name.
        why_no_intervals: Why the measures of its account have no intervals, where they have none.
        undefined: Why measures are undefined, by name.
    """

    run_id: str
    label: str
    baseline: bool
    phase: str
    in_sample: bool | None
    measures: dict[str, Measured]
    why_no_intervals: str | None
    undefined: dict[str, str]


class JudgedAlike(Data):
    """Runs whose measures may be compared: they were judged on the same data, window, episodes and costs.

    Attributes:
        judged_on: The dates, in words.
        differs: In which respects it differs from the first such group; empty for the first.
        runs: The runs, in order.
    """

    judged_on: str
    differs: tuple[str, ...]
    runs: tuple[ComparedRun, ...]


class Comparison(Data):
    """Runs side by side.

    Attributes:
        groups: The runs by what they were judged on, in the order of their first run.
        spec_differences: Fields in which the specs of the runs that were named differ, with the value of each run.
        spec_runs: Those runs, in the order of the values.
        baselines_failed: Why rules could not be judged, by name.
    """

    groups: tuple[JudgedAlike, ...]
    spec_differences: tuple[ManyDifference, ...]
    spec_runs: tuple[str, ...]
    baselines_failed: dict[str, str] = field(default_factory=dict)


class _Judged(Data):
    """A run with what judged it."""

    run: RunRow
    evaluation: EvaluationRow
    spec: RLExperimentSpec
    label: str
    baseline: bool = False


@operation("compare", changes=True)
def compare(settings: Settings, request: CompareRuns, *, caller: Caller = NOBODY) -> Comparison:
    """Runs side by side: measures with bootstrap intervals, whether they were judged alike, and how specs differ."""
    if not request.runs:
        raise RequestError("runs: name one or more")
    _refuse_unknown(request.sort)
    with Ledger.open(settings) as ledger:
        rows = {row.id: row for row in (ledger.run(reference) for reference in request.runs)}
        named = [_judged(ledger, row) for row in rows.values()]
    judged, failed = list(named), dict[str, str]()
    if request.baselines:
        beside, failed = _baselines(settings, named, caller)
        judged += beside
        for name, why in failed.items():
            caller.listen(Notice(f"the baseline {name} could not be judged: {why}"))
    with Lake(settings) as lake:
        groups = tuple(_group(lake, group, judged[0], request.sort) for group in _alike(judged))
    return Comparison(
        groups,
        tuple(diff_many([item.spec for item in named])),
        tuple(item.run.id for item in named),
        failed,
    )


def _refuse_unknown(measure: str | None) -> None:
    if measure is not None and measure not in MEASURES:
        raise OptionError(f"the measure {measure!r}", "nothing of that name is measured", nearest(measure, MEASURES))


def _judged(ledger: Ledger, row: RunRow, label: str | None = None) -> _Judged:
    version = ledger.version(row.version_id)
    spec = RLExperimentSpec.from_data(version.payload, source=f"stored version {version.id}", stored=True)
    agent = "no agent" if spec.agent is None else spec.agent.label
    return _Judged(row, judged_evaluation(ledger, row), spec, label or row.name or agent, label is not None)


def _baselines(settings: Settings, named: Sequence[_Judged], caller: Caller) -> tuple[list[_Judged], dict[str, str]]:
    """Rules judged as the first run was, without those that are among the runs already; and why others could not be."""
    first = named[0]
    found = judge_baselines(
        settings, first.spec, (first.run, first.evaluation), lambda text: caller.listen(Progress(text))
    )
    known = {item.run.id for item in named}
    with Ledger.open(settings) as ledger:
        rows = {item.name: ledger.run(item.run_id) for item in found if item.run_id and item.run_id not in known}
        beside = [_judged(ledger, row, name) for name, row in rows.items()]
    return beside, {item.name: item.error for item in found if item.error is not None}


def _differences(first: _Judged, second: _Judged) -> list[str]:
    """In which respects two runs were judged differently; environments without dates have to be the same."""
    found = judgement_differences(first.evaluation.judgement, second.evaluation.judgement)
    judgement = first.evaluation.judgement
    if judgement is None or judgement.dated:
        return found
    ours, theirs = (item.spec.env.canonical_form() if item.spec.env else None for item in (first, second))
    if ours != theirs:
        found.append(f"env: {ours and ours['class']} and {theirs and theirs['class']}")
    return found


def _alike(judged: Sequence[_Judged]) -> list[list[_Judged]]:
    """The runs, those judged alike together. Of one whose judgement was not kept nobody knows: it is alone."""
    groups: list[list[_Judged]] = []
    for item in judged:
        group = next((group for group in groups if not _differences(group[0], item)), None)
        if group is None:
            groups.append([item])
        else:
            group.append(item)
    return groups


def _group(lake: Lake, group: Sequence[_Judged], first: _Judged, sort: str | None) -> JudgedAlike:
    runs = [_compared(lake, item) for item in group]
    if sort is not None:
        runs.sort(key=lambda run: _rank(run, sort))
    differs = () if group[0] is first else tuple(_differences(first, group[0]))
    judgement = group[0].evaluation.judgement
    return JudgedAlike("not kept" if judgement is None else judgement.window, differs, tuple(runs))


def _rank(run: ComparedRun, measure: str) -> float:
    """Where a run stands by a measure; what is undefined ranks behind everything."""
    found = run.measures.get(measure)
    if found is None or found.value is None:
        return math.inf
    return -found.value if MEASURES[measure] else found.value


def _compared(lake: Lake, item: _Judged) -> ComparedRun:
    evaluation, metrics = item.evaluation, item.evaluation.metrics
    initial = None if item.spec.env is None else item.spec.env.kwargs.get("initial_cash")
    found = judged_curves(lake, item.run, evaluation, initial)
    per_year = periods_per_year(found.curves, metrics.get("volatility"))
    intervals = curve_intervals(found.curves, per_year) if found.curves else {}
    rewards = _interval_of_rewards(metrics)
    if rewards is not None:
        intervals["mean_reward"] = rewards
    values = {"mean_reward": evaluation.mean_reward, **{name: metrics.get(name) for name in PORTFOLIO_METRICS}}
    if found.curves and per_year is None:  # an account that does not move has no risk to be measured by
        values |= {"sharpe": None, "sortino": None}
    measures = {name: _measured(value, intervals.get(name)) for name, value in values.items() if name in metrics}
    return ComparedRun(
        run_id=item.run.id,
        label=item.label,
        baseline=item.baseline,
        phase=evaluation.phase,
        in_sample=evaluation.in_sample,
        measures=measures,
        why_no_intervals=None if found.curves else found.why_none,
        undefined=_reasons(metrics, [name for name, measured in measures.items() if measured.value is None]),
    )


def _reasons(metrics: Mapping[str, Any], undefined: Sequence[str]) -> dict[str, str]:
    """Why measures are undefined; evaluations of before there were reasons have none, and 0 in their place."""
    known = metrics.get("undefined") or {}
    return {name: known.get(name, "it does not exist for such a curve, and 0 was stored then") for name in undefined}


def _interval_of_rewards(metrics: Mapping[str, Any]) -> Interval | None:
    """The interval of the mean return of episodes; equal returns of few episodes say nothing of chance."""
    returns = [value for value in metrics.get("returns", ()) if value is not None]
    return mean_interval(returns) if len(set(returns)) > 1 else None


def _measured(value: float | None, interval: Interval | None) -> Measured:
    if value is None or not math.isfinite(value):
        return Measured(None)
    if interval is None:
        return Measured(value)
    if math.isnan(interval.estimate):  # stored before what does not exist was called undefined
        return Measured(None)
    low, high = (end if math.isfinite(end) else None for end in (interval.low, interval.high))
    return Measured(value, low, high)

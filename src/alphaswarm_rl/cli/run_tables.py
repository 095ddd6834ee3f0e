"""How runs and their events look as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from alphaswarm_rl.cli.text import SHORT_ID, columns, pairs, shown
from alphaswarm_rl.core.wording import PORTFOLIO_METRICS, size, window_text

if TYPE_CHECKING:
    from alphaswarm_rl.operations.curves import Curve
    from alphaswarm_rl.operations.run_removals import RemovedRuns
    from alphaswarm_rl.operations.run_steps import Holdings
    from alphaswarm_rl.operations.runs import EvaluationRow, EventRow, ListedRun, RunDetails, RunRow

#: Columns of a run that are shown in their own way, or say nothing to people.
_ELSEWHERE = (
    "result_summary",
    "overrides",
    "notices",
    "code_fingerprint",
    "machine",
    "process_start",
    "spec_id",
    "window_end",
)
#: What a run's own window is called; what it was judged on stands beside the metrics.
_OWN_WINDOW = {
    "train": "training_window",
    "evaluate": "evaluation_window",
    "replay": "replay_window",
    "backtest": "backtest_window",
}

#: Columns of the table of evaluations, by their titles; those of accounts only where there are any.
_EVALUATIONS = {
    "PHASE": "phase",
    "WINDOW": "window",
    "STEPS": "timesteps",
    "EPISODES": "episodes",
    "MEAN REWARD": "mean_reward",
    "STD": "std_reward",
    "MEAN LENGTH": "mean_length",
    "IN SAMPLE": "in_sample",
}
_ACCOUNTS = {"TOTAL RETURN": "total_return", "SHARPE": "sharpe", "MAX DRAWDOWN": "max_drawdown"}
#: Columns of a curve, by their titles; those that no point fills are left out.
_CURVE = {
    "STEPS": "timesteps",
    "EPISODES": "episodes",
    "MEAN REWARD": "mean_reward",
    "STEPS/S": "steps_per_second",
    "LOSS": "loss",
    "ENTROPY": "entropy",
    "EXPLAINED VARIANCE": "explained_variance",
}
#: Columns of the list of runs that are left out where no run has them.
_WHERE_ANY = ("REWARD", "WINDOW", "RETURN", "SHARPE", "NAME")
_DAY = len("2024-01-31")
_IN_SAMPLE = "*"


#: Columns of holdings, by their titles.
_HOLDINGS = {
    "SYMBOL": "symbol",
    "QUANTITY": "quantity",
    "PRICE": "price",
    "VALUE": "value",
    "WEIGHT": "weight",
    "ACTION": "action",
    "TARGETS": "targets",
    "BOUGHT": "bought",
    "REASONS": "reasons",
    "COST": "cost",
    "CARRY": "carry",
    "COST SO FAR": "cost_so_far",
    "CARRY SO FAR": "carry_so_far",
}


def holding_lines(found: Holdings) -> list[str]:
    """The step, and a line for cash and each asset; why there are none, where there are none."""
    if found.why_empty:
        return [f"there are no such rows: {found.why_empty}"]
    step = ("ts", "phase", "env_idx", "episode", "step", "equity", "cost", "carry", "targets", "stages")
    rows = [[row[name] for name in _HOLDINGS.values()] for row in found.holdings]
    return [*pairs({name: getattr(found, name) for name in step}), *columns(list(_HOLDINGS), rows)]


def run_table(runs: Sequence[ListedRun] | Sequence[Mapping[str, object]]) -> list[str]:
    """The runs, one line each: with the columns that were asked for, or short, without columns that no run fills."""
    listed = [run for run in runs if not isinstance(run, Mapping)]
    if listed:
        return _short_table(listed)
    chosen = [run for run in runs if isinstance(run, Mapping)]
    return columns([name.upper().replace("_", " ") for name in chosen[0]], [list(run.values()) for run in chosen])


def _short_table(runs: Sequence[ListedRun]) -> list[str]:
    rows: list[dict[str, object]] = [
        {
            "RUN": run.id[:SHORT_ID],
            "SPEC": run.family,
            "AGENT": run.agent,
            "TARGET": run.target,
            "STATUS": run.status if run.removed_at is None else f"{run.status} (removed)",
            "SEED": run.seed,
            "STEPS": run.timesteps,
            "REWARD": _number(run.mean_reward, ".4g"),
            "WINDOW": _judged_days(run),
            "RETURN": _number(run.total_return, ".4f"),
            "SHARPE": _number(run.sharpe, ".2f"),
            "STARTED": None if run.started_at is None else f"{run.started_at:%m-%d %H:%M}",
            "NAME": run.name,
        }
        for run in runs
    ]
    titles = [title for title in rows[0] if title not in _WHERE_ANY or any(row[title] is not None for row in rows)]
    lines = columns(titles, [[row[title] for title in titles] for row in rows])
    if any((_judged_days(run) or "").endswith(_IN_SAMPLE) for run in runs):
        lines += ["", f"{_IN_SAMPLE} in sample: bars of training or validation are in it"]
    return lines


def run_lines(details: RunDetails) -> list[str]:
    """Everything about one run: names and values, overrides, notices, evaluations, checkpoints."""
    run = details.run
    lines = pairs(_values(details))
    lines += [f"override  {path} = {shown(item['value'])} ({item['source']})" for path, item in run.overrides.items()]
    lines += [f"notice  {notice}" for notice in run.notices]
    if details.evaluations:
        lines += ["", "evaluations:", *_evaluation_table(details.evaluations)]
    if details.checkpoints:
        lines += ["", "checkpoints kept:"]
        lines += columns(("STEP", "FOLDER"), [(item.timesteps, item.path) for item in details.checkpoints])
    return lines


def curve_lines(curve: Curve) -> list[str]:
    """The points of a curve, one line each."""
    if curve.why_empty is not None:
        return [f"there are no points: {curve.why_empty}"]
    points = [vars(point) for point in curve.points]
    chosen = {title: name for title, name in _CURVE.items() if any(point[name] is not None for point in points)}
    lines = columns(tuple(chosen), [[point[name] for name in chosen.values()] for point in points])
    if len(points) < curve.total_points:
        lines += ["", f"{len(points)} of {curve.total_points} points; more: --points"]
    return lines


def event_line(event: EventRow) -> str:
    """One event on one line, without what is empty."""
    details = {
        name: value for name, value in event.payload.items() if value not in (None, "", [], {}) and name != "traceback"
    }
    return f"{event.seq:>5}  {shown(event.ts)}  {event.stage:<16}  {shown(details)}".rstrip()


def _values(details: RunDetails) -> Mapping[str, object]:
    run = details.run
    summary = run.result_summary or {}
    account = {name: summary[name] for name in PORTFOLIO_METRICS if name in summary}
    known: dict[str, object] = {"spec": f"{details.spec.slug} version {details.spec.version}"}
    for name, value in vars(run).items():
        if name == "window_start":
            known[_OWN_WINDOW.get(run.target, "window")] = window_text(vars(run))
            known["judged_on"] = window_text(summary)
        elif name not in _ELSEWHERE and name not in account:
            known[name] = value
    return {**known, **account, "undefined": summary.get("undefined"), "children": details.children}


def _evaluation_table(evaluations: Sequence[EvaluationRow]) -> list[str]:
    rows = [{**vars(item), "window": window_text(item.metrics)} for item in evaluations]
    chosen = dict(_EVALUATIONS)
    if not any(row["window"] for row in rows):
        del chosen["WINDOW"]
    if any(row["total_return"] is not None for row in rows):
        chosen |= _ACCOUNTS
    return columns(tuple(chosen), [[row[name] for name in chosen.values()] for row in rows])


def _judged_days(run: RunRow) -> str | None:
    """The days that were judged, with a mark where they are in sample."""
    start, end = ((run.result_summary or {}).get(name) for name in ("window_start", "window_end"))
    if start is None and end is None:
        return None
    days = "..".join("" if date is None else date[:_DAY] for date in (start, end))
    return f"{days}{_IN_SAMPLE if run.in_sample else ''}"


def _number(value: float | None, form: str) -> str | None:
    return None if value is None else format(value, form)


def removal_lines(result: RemovedRuns) -> list[str]:
    """What was removed, what stays and why, and what that freed."""
    verbs = ("would remove", "would keep", "to free") if result.dry_run else ("removed", "kept", "freed")
    removed, kept, freed = verbs
    lines = [f"{removed} run {each.run_id}, {size(each.freed_bytes)} {freed}; its row stays" for each in result.removed]
    lines += [f"{kept} run {each.run_id}: {each.why}" for each in result.kept]
    if result.lake is not None:
        lines.append(
            f"freed {result.lake.files} files of the lake at once, {size(result.lake.bytes)}; "
            f"{result.lake.snapshots} old snapshots were forgotten"
        )
        lines += [
            f"kept {each.files} files of run {each.run_id} in {each.table}, {size(each.bytes)}: {each.why}"
            for each in result.lake.kept
        ]
    if len(result.removed) != 1 or result.kept:
        counts = f"{removed} {len(result.removed)} runs, {kept.removeprefix('would ')} {len(result.kept)}"
        lines.append(f"{counts}; {size(result.freed_bytes)} {freed}")
    return lines

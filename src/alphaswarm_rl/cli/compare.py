"""`rl compare`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.text import SHORT_ID, as_written, columns
from alphaswarm_rl.cli.verb import verb

if TYPE_CHECKING:
    from alphaswarm_rl.operations.compare import ComparedRun, Comparison, JudgedAlike, Measured

#: Titles of measures, and how their numbers look.
_MEASURES = {
    "mean_reward": ("REWARD", ".4g"),
    "sharpe": ("SHARPE", ".2f"),
    "sortino": ("SORTINO", ".2f"),
    "total_return": ("RETURN", ".1%"),
    "annual_return": ("A YEAR", ".1%"),
    "max_drawdown": ("DRAWDOWN", ".1%"),
    "volatility": ("VOLATILITY", ".1%"),
    "turnover": ("TURNOVER", ".1%"),
    "cost": ("COST", ".1%"),
    "final_value": ("END", ".6g"),
}
_IN_SAMPLE = "*"


@verb("compare")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--baselines", is_flag=True, help="Judge cash, 1/N and other rules as the first run was, beside them.")
@click.option("--sort", metavar="MEASURE", help="The best by that measure first, such as sharpe.")
def compare(session: Session, runs: tuple[str, ...], baselines: bool, sort: str | None) -> None:
    """Compare runs: measures with bootstrap intervals, were they judged alike, how do their specs differ.

    RUN is a run's id, the beginning of it, or latest. Only runs that were judged on the same data, window, episodes and
    costs stand in one table; for others it is said in which respects they differ. Brackets hold the interval of 95 %
    by the stationary bootstrap of the recorded account, or of episodes where there are several.

    Args:
        session: This call.
        runs: The runs.
        baselines: Whether classical rules are compared too.
        sort: The measure that orders a table.
    """
    from alphaswarm_rl.operations.compare import CompareRuns, compare

    found = compare(session.settings, CompareRuns(runs, baselines, sort), caller=session.caller)
    session.answer(found, _lines(found))


def _lines(found: Comparison) -> list[str]:
    lines: list[str] = []
    for group in found.groups:
        lines += [*_group_lines(group), ""]
    if len(found.groups) > 1:
        lines += ["Runs of different tables were not judged alike and cannot be compared.", ""]
    return lines + _spec_lines(found)


def _group_lines(group: JudgedAlike) -> list[str]:
    heading = f"judged on {group.judged_on}:"
    if group.differs:
        heading = f"judged on {group.judged_on}; differs from the first: {'; '.join(group.differs)}"
    measures = [name for name in _MEASURES if any(name in run.measures for run in group.runs)]
    titles = ["RUN", "WHAT", "PHASE", *(_MEASURES[name][0] for name in measures)]
    lines = [heading, *columns(titles, [_cells(run, measures) for run in group.runs])]
    if any(run.in_sample for run in group.runs):
        lines.append(f"{_IN_SAMPLE} in sample: bars of training or validation are in it")
    for run in group.runs:
        lines += [f"undefined for {run.run_id[:SHORT_ID]}: {name}, {why}" for name, why in run.undefined.items()]
    without = [run for run in group.runs if run.why_no_intervals not in (None, "there is no account")]
    return lines + [f"no intervals for {run.run_id[:SHORT_ID]}: {run.why_no_intervals}" for run in without]


def _cells(run: ComparedRun, measures: list[str]) -> list[str]:
    label = f"{run.label}{' (baseline)' if run.baseline else ''}"
    phase = f"{run.phase}{_IN_SAMPLE if run.in_sample else ''}"
    return [
        run.run_id[:SHORT_ID],
        label,
        phase,
        *(_cell(run.measures.get(name), _MEASURES[name][1]) for name in measures),
    ]


def _cell(measured: Measured | None, form: str) -> str:
    if measured is None:
        return "-"
    if measured.value is None:
        return "undefined"
    value = format(measured.value, form)
    if measured.low is None and measured.high is None:
        return value
    low, high = ("?" if end is None else format(end, form) for end in (measured.low, measured.high))
    return f"{value} [{low}, {high}]"


def _spec_lines(found: Comparison) -> list[str]:
    if len(found.spec_runs) < 2:
        return []
    if not found.spec_differences:
        return ["The specs are the same."]
    rows = [(item.path, *map(as_written, item.values)) for item in found.spec_differences]
    return ["specs differ:", *columns(("FIELD", *(run_id[:SHORT_ID] for run_id in found.spec_runs)), rows)]

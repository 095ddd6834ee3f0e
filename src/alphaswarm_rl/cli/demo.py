"""`make demo`: the demo's tables and what they say, in words."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TextIO

import click

from alphaswarm_rl.cli.decide import target_lines
from alphaswarm_rl.cli.plot import plot_lines
from alphaswarm_rl.cli.reporting import BROKEN
from alphaswarm_rl.cli.run_tables import holding_lines
from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.text import SHORT_ID, columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alphaswarm_rl.operations.demo import DemoResult, JudgedRun

_PERCENTS = ("total_return", "annual_return", "volatility", "max_drawdown", "turnover")
_HEADING = ("", "RUN", "SHARPE", "RETURN", "A YEAR", "VOLATILITY", "DRAWDOWN", "TURNOVER", "SECONDS")


@click.command(help="Train on real stocks, judge it beside baselines, replay it, and show what came of it.")
@click.option("--timesteps", type=int, default=50_000, help="Transitions of training.")
def main(timesteps: int) -> None:
    """Runs the demo; it ends with exit code 0 when everything was as it should be."""
    from alphaswarm_rl.operations.demo import DemoRequest, demo

    session = Session(sys.stdout, {})
    found = demo(session.settings, DemoRequest(timesteps), caller=session.caller)
    session.answer(found, [*_lines(found), *_drawn(found, session.out), *_tomorrow(found)])
    if not (found.same_return and found.same_bytes):
        raise click.exceptions.Exit(BROKEN)


def _lines(found: DemoResult) -> list[str]:
    steps, run_id = f"{found.recorded_steps:,}", found.contest[0].run_id[:SHORT_ID]
    return [
        *_table(f"20 US stocks, {found.window}, after costs", found.contest),
        found.verdict,
        "",
        *_table("The trained policy, from its checkpoint", found.replays),
        f"The evaluation gave the same return as training's own: {found.same_return}.",
        f"Both replays gave the same bytes, under the version that trained: {found.same_bytes}.",
        "",
        f"All {steps} steps of the training run are in tables: .venv/bin/rl sql 'SELECT ...'.",
        f"Look closer: .venv/bin/rl runs show {run_id}",
        *_worst_day(found, run_id),
    ]


def _worst_day(found: DemoResult, run_id: str) -> list[str]:
    """What the trained policy held where its account was furthest below its peak."""
    if found.deepest_drawdown is None or found.held is None:
        return []
    depth, day = found.deepest_drawdown
    return [
        "",
        f"The worst day of PPO's evaluation was {day}, {depth:.1%} below its peak. What it held, why, at what cost",
        f"(.venv/bin/rl runs holdings {run_id} --asof {day}):",
        *holding_lines(found.held),
    ]


def _tomorrow(found: DemoResult) -> list[str]:
    """The target weights of the trained policy for the day after its evaluation."""
    decided = found.tomorrow
    if decided is None:
        return []
    run_id = found.contest[0].run_id[:SHORT_ID]
    return [
        "",
        f"What PPO would hold after {decided.bar}, by symbol: its target weights, decided on the bars so far alone",
        f"(.venv/bin/rl decide {run_id} --asof {decided.bar} --cash 100000, which begins with cash):",
        *target_lines(decided),
    ]


def _drawn(found: DemoResult, out: TextIO) -> list[str]:
    """The account of the trained policy in its evaluation."""
    return [] if found.curve is None else ["", *plot_lines(found.curve, out)]


def _table(title: str, runs: Sequence[JudgedRun]) -> list[str]:
    rows = [
        (
            run.label,
            run.run_id[:SHORT_ID],
            _number(run.metrics["sharpe"], ".2f"),
            *(_number(run.metrics[name], ".1%") for name in _PERCENTS),
            f"{run.seconds:.1f}",
        )
        for run in runs
    ]
    return [f"{title}:", *columns(_HEADING, rows), ""]


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


if __name__ == "__main__":
    main()

"""`make demo`: trains on real stocks, judges it beside baselines, replays it, and shows what came of it."""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import Any

import click

from alphaswarm_rl.cli.text import columns
from alphaswarm_rl.core.window import Window
from alphaswarm_rl.options import effective_spec, load_settings
from alphaswarm_rl.runtime import RLRuntime, RunResult
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.spec import RLExperimentSpec, load_spec

#: Orders in money, in fractions of shares and without a limit that binds: what is held between rebalancings is not
#: traded. Target weights would be restored at every fill.
_ORDERS = {"class": "integer_shares", "kwargs": {"hmax": 1e9, "unit": "money", "whole": False}}
_BASELINES = ("equal_weight", "buy_and_hold", "minimum_variance", "mean_variance", "random")
_REPLAYED = Window("2021-01-01", "2021-04-01")


def main(arguments: list[str] | None = None) -> int:
    """Runs the demo; 0 when everything was as it should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--timesteps", type=int, default=50_000, help="Transitions of training.")
    timesteps = parser.parse_args(arguments).timesteps
    settings = load_settings({}, os.environ)
    spec = effective_spec(load_spec("my_first_rl"), {"train.totalTimesteps": timesteps}, {}).spec
    window = spec.evaluation.window
    click.echo(f"All state goes to {settings.home.absolute()}.\n")
    rows: list[tuple[str, RunResult, float]] = []

    def timed(label: str, runtime: RLRuntime, verb: str, *given: Any) -> RunResult:
        started = time.perf_counter()
        result: RunResult = getattr(runtime, verb)(*given)
        rows.append((label, result, time.perf_counter() - started))
        return result

    trained = timed("PPO", RLRuntime(spec, settings, progress=sys.stderr.isatty()), "train")
    for name in _BASELINES:
        timed(name.replace("_", " "), RLRuntime(baseline(spec, name), settings), "evaluate")
    click.echo(_table(f"20 US stocks, {window}, after costs", rows))
    click.echo(_verdict(rows))

    rows.clear()
    policy = RLRuntime.from_run(trained.run_id, settings)
    again = timed("the same window again", policy, "evaluate")
    replays = [timed(f"replay {_REPLAYED}", policy, "replay", _REPLAYED) for _ in range(2)]
    click.echo(_table("The trained policy, from its checkpoint", rows))
    same = again.metrics["total_reward"] == trained.metrics["total_reward"]
    equal = replays[0].metrics == replays[1].metrics
    version = {result.version_id for result in (trained, again, *replays)}
    click.echo(f"The evaluation gave the same return as training's own: {same}.")
    click.echo(f"Both replays gave the same bytes, under the version that trained: {equal and len(version) == 1}.")
    click.echo(_recorded(settings, trained))
    click.echo(f"Look closer: .venv/bin/rl runs show {trained.run_id[:8]}")
    return 0 if same and equal and len(version) == 1 else 1


def baseline(spec: RLExperimentSpec, policy: str) -> RLExperimentSpec:
    """The same experiment with a classical rule in place of the agent."""
    data = spec.as_data()
    action = data["action"] if policy == "random" else _ORDERS
    agent = {"class": "policy", "kwargs": {"policy": {"class": policy}}}
    name = f"{spec.name}: {policy}"
    return RLExperimentSpec.from_data({**data, "name": name, "slug": "", "agent": agent, "action": action})


def _table(title: str, rows: list[tuple[str, RunResult, float]]) -> str:
    percents = ("total_return", "annual_return", "volatility", "max_drawdown", "turnover")
    table = [
        (
            label,
            result.run_id[:8],
            f"{result.metrics['sharpe']:.2f}",
            *(f"{result.metrics[name]:.1%}" for name in percents),
            f"{seconds:.1f}",
        )
        for label, result, seconds in rows
    ]
    heading = ("", "RUN", "SHARPE", "RETURN", "A YEAR", "VOLATILITY", "DRAWDOWN", "TURNOVER", "SECONDS")
    return "\n".join([f"{title}:", *columns(heading, table), ""])


def _verdict(rows: list[tuple[str, RunResult, float]]) -> str:
    """What the table says about the agent, in words."""
    (_, agent, _), *others = rows
    best, sharpe = max(((label, result.metrics["sharpe"]) for label, result, _ in others), key=lambda pair: pair[1])
    if agent.metrics["sharpe"] <= sharpe:
        found = f"PPO does not beat {best} (Sharpe {agent.metrics['sharpe']:.2f} against {sharpe:.2f}): no edge shown."
    else:
        found = (
            f"PPO is ahead of {best} (Sharpe {agent.metrics['sharpe']:.2f} against {sharpe:.2f}) on one seed and one "
            "window, which is no evidence of an edge."
        )
    return f"{found} The stocks are survivors: every long portfolio of them looks good.\n"


def _recorded(settings: Settings, trained: RunResult) -> str:
    """How many steps of the training are in the tables, and what its worst day was, asked in SQL."""
    import duckdb

    from alphaswarm_rl.lake.views import register_run_views

    with duckdb.connect() as connection:
        views = register_run_views(trained.run_id, connection, settings)
        ((count,),) = connection.table(views["trajectories"]).aggregate("count(*)").fetchall()
        judged = connection.table(views["equity_curves"]).filter("phase = 'evaluate'")
        worst = judged.order("drawdown DESC").limit(1).project("ts::DATE, drawdown").fetchall()
    day = "".join(f"; the deepest drawdown of the evaluation was {depth:.1%} on {date}" for date, depth in worst)
    return f"\nAll {count:,} steps of the training run are in tables{day}: .venv/bin/rl sql 'SELECT ...'."


if __name__ == "__main__":
    sys.exit(main())

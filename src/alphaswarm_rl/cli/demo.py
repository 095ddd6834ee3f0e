"""`make demo`: trains, evaluates and replays on this machine, and shows what came of it."""

from __future__ import annotations

import argparse
import os
import sys
import time

from rich.console import Console
from rich.table import Table

from alphaswarm_rl.options import effective_spec, load_settings
from alphaswarm_rl.runtime import RLRuntime, RunResult
from alphaswarm_rl.spec import load_spec


def main(arguments: list[str] | None = None) -> int:
    """Runs the demo; 0 when everything was as it should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--timesteps", type=int, default=100_000, help="Transitions of training.")
    timesteps = parser.parse_args(arguments).timesteps
    console = Console()
    settings = load_settings({}, os.environ)
    spec = effective_spec(load_spec("cartpole_ppo"), {"train.totalTimesteps": timesteps}, {}).spec
    console.print(f"All state goes to {settings.home.absolute()}.\n")
    results: list[tuple[str, RunResult, float]] = []

    def timed(label: str, runtime: RLRuntime, verb: str, **arguments: int) -> RunResult:
        started = time.perf_counter()
        result: RunResult = getattr(runtime, verb)(**arguments)
        results.append((label, result, time.perf_counter() - started))
        return result

    timed("random actions", RLRuntime("cartpole_random", settings), "evaluate")
    trained = timed("train PPO", RLRuntime(spec, settings, progress=sys.stderr.isatty()), "train")
    policy = RLRuntime.from_run(trained.run_id, settings)
    evaluated = timed("evaluate again, same seed", policy, "evaluate")
    replayed = timed("replay, seed 7", policy, "replay", seed=7)

    table = Table(title="CartPole-v1, mean return over 20 episodes (500 is the most)")
    for heading in ("what", "run", "version", "mean", "min", "seconds"):
        table.add_column(heading)
    for label, result, seconds in results:
        metrics = result.metrics
        table.add_row(
            label,
            result.run_id[:8],
            result.version_id[:8],
            f"{metrics['mean_reward']:.1f}",
            f"{metrics['min_reward']:.1f}",
            f"{seconds:.1f}",
        )
    console.print(table)
    console.print(f"The evaluation gave the same returns as training's own: {evaluated.metrics == trained.metrics}.")
    console.print(f"The replay is another row of the same version: {replayed.version_id == trained.version_id}.")
    console.print(f"Look closer: .venv/bin/rl runs show {trained.run_id[:8]}")
    return 0 if evaluated.metrics == trained.metrics and replayed.version_id == trained.version_id else 1


if __name__ == "__main__":
    sys.exit(main())

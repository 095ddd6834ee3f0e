"""What the model registry costs: listing, finding the best, and many processes that register at once.

    python benchmarks/models.py [--models 10000] [--scopes 5] [--rounds 21] [--processes 20] [--json]

Looking: models of several scopes, each with an evaluation and three validations; `list` gives all of them as rows,
`best` the best of one scope. Figures are medians of wall time, in milliseconds.
Registering: that many processes register models, evaluate and validate them at the same time; each row must be there.

Passes when every figure is within its bound.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import numpy as np
from judging import Line, at_least, at_most, tell

from alphaswarm_rl import Settings
from alphaswarm_rl.db.engine import write
from alphaswarm_rl.db.types import utc_now
from alphaswarm_rl.models import ModelRegistry, NewEvaluation, NewModel, Scope, verified_sha256
from alphaswarm_rl.models.tables import evaluations, models, validations

MOST_MS = 100.0
MODELS_PER_PROCESS = 10
VALIDATIONS = 3
HYPERPARAMS = {"learning_rate": 3e-4, "n_steps": 2048, "batch_size": 64, "gamma": 0.99, "net_arch": [64, 64]}


def scope(number: int) -> Scope:
    """One of several."""
    return Scope(f"Env-v{number}", f"{number:064x}", "Box(-inf, inf, (4,), float32)", "Discrete(2)")


def fill(registry: ModelRegistry, count: int, scopes: int) -> None:
    """Writes models as training runs leave them, in one transaction."""
    rng = np.random.default_rng(0)
    means = rng.normal(100, 20, count).tolist()
    now = int(time.time())
    rows: list[dict[str, Any]] = [
        {
            "id": number + 1,
            "model_path": f"/models/{number // 10:08d}/{number % 10:012d}",
            "algorithm": "ppo",
            **vars(scope(number % scopes)),
            "timestamp": now - count + number,
            "total_timesteps": 10_000 * (number % 10 + 1),
            "mean_reward": mean,
            "std_reward": 5.0,
            "mean_episode_length": 200.0,
            "hyperparams": HYPERPARAMS,
            "validated": number % 3 == 0,
            "run_id": f"{number // 10:036d}",
            "sha256": f"{number:064x}",
            "eval_episodes": 10,
            "eval_seed": 0,
            "lower_bound": mean - 3.0,
            "tags": ["bench"],
        }
        for number, mean in enumerate(means)
    ]
    looks = [
        {
            "id": row["id"],
            "model_id": row["id"],
            "at": utc_now(),
            "episodes": 10,
            "mean_reward": row["mean_reward"],
            "source": "evaluate",
            "metrics": {},
        }
        for row in rows
    ]
    verdicts = [
        {
            "model_id": row["id"],
            "at": utc_now(),
            "profile": "default",
            "passed": row["validated"],
            "checks": [],
            "evidence": {},
            "limits": {},
            "evaluation_id": row["id"],
        }
        for row in rows
        for _ in range(VALIDATIONS)
    ]
    with write(registry.engine) as connection:
        connection.execute(models.insert(), rows)
        connection.execute(evaluations.insert(), looks)
        connection.execute(validations.insert(), verdicts)


def median_ms(work: Callable[[], object], rounds: int) -> float:
    """Median wall time of one call; the first warms up."""
    times = []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        work()
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times[1:])


def looking(home: Path, count: int, scopes: int, rounds: int) -> list[Line]:
    """Listing and finding the best among many."""
    with ModelRegistry.open(Settings(home=home)) as registry:
        fill(registry, count, scopes)
        one = scope(0)
        expected = max((row for row in registry.list(scope=one) if row.validated), key=lambda row: row.mean_reward or 0)
        found = registry.best(one)
        if found is None or found.id != expected.id or len(registry.list()) != count:
            raise SystemExit("the registry answers wrongly")
        asked: dict[str, Callable[[], object]] = {
            "list, all": registry.list,
            "list, 20 best validated": lambda: registry.list(validated=True, top_n=20),
            "best of a scope": lambda: registry.best(one),
            "best of an environment and a tag": lambda: registry.best(env_id=one.env_id, tag="bench"),
        }
        details = f"{count:,} models in {scopes} scopes, median of {rounds}"
        return [at_most(f"ms, {name}", median_ms(work, rounds), MOST_MS, details) for name, work in asked.items()]


def register_some(home: Path, number: int, barrier: Barrier) -> None:
    """What one of the processes does."""
    import scipy.special  # noqa: F401  (what gates need is paid for before the start)

    with ModelRegistry.open(Settings(home=home)) as registry:
        barrier.wait(120)
        for step in range(MODELS_PER_PROCESS):
            path = home / f"model-{number}-{step}"
            path.write_text(f"{number} {step}")
            row = registry.register(NewModel(path, "ppo", scope(0), step, verified_sha256(path, None), HYPERPARAMS))
            registry.add_evaluation(
                row.id, NewEvaluation(10, 100.0 + number, 5.0, 200.0, 0, True, None, None, None, None, "added")
            )
            registry.validate(row.id)


def registering(home: Path, processes: int) -> list[Line]:
    """Many processes on one new file."""
    home.mkdir()
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(processes + 1)
    crew = [context.Process(target=register_some, args=(home, number, barrier)) for number in range(processes)]
    for process in crew:
        process.start()
    barrier.wait(120)
    began = time.perf_counter()
    for process in crew:
        process.join()
    spent = time.perf_counter() - began
    with ModelRegistry.open(Settings(home=home)) as registry:
        rows = registry.list(validated=True)
        complete = len({row.model_path for row in rows if row.eval_episodes and len(registry.validations(row.id)) == 1})
    expected = processes * MODELS_PER_PROCESS
    details = f"{processes} processes on one new file, {expected / spent:.0f} models/s through all three"
    return [at_least("complete models of those registered", complete / expected, 1.0, details)]


def main() -> int:
    """Measures and judges."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=10_000)
    parser.add_argument("--scopes", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--processes", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    machine = f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} CPUs"
    with tempfile.TemporaryDirectory(prefix="models-") as folder:
        lines = [
            *looking(Path(folder) / "looking", arguments.models, arguments.scopes, arguments.rounds),
            *registering(Path(folder) / "registering", arguments.processes),
        ]
    return tell(machine, lines, as_json=arguments.json)


if __name__ == "__main__":
    sys.exit(main())

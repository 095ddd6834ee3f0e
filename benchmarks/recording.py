"""What recording every step costs: CPU time of training, rows per second, the loop's waiting, and memory.

    python benchmarks/recording.py [cartpole] [stocks] [native] [speed] [memory] [--scale 1.0] [--pairs 11] [--json]

cartpole, stocks: PPO of Stable-Baselines3 on CartPole and on 30 stocks, recorded and not, in turn, in CPU time of the
whole process with all its threads. The upper end of the ratio's 90 % interval may be 1.05.
native: our own PPO on 30 stocks in the same way, which takes far less time itself; it may be 1.10.
speed: the random agent in 64 environments of 30 stocks, as fast as it goes: rows per second into the tables, until
all of them are committed, and the most memory beside that of the same run without recording.
memory: ten million steps of CartPole by the random agent; how far resident memory rises above where it began.

Without a word all of them run. `--scale` shortens them.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pairs as pairs_of
from judging import Line, at_least, at_most, tell
from pairs import FEWEST_PAIRS, machine

MOST_COST = 1.05
MOST_NATIVE_COST = 1.10
LEAST_ROWS_PER_S = 1_000_000
#: What may come on top of `record.memory_mb`: the open row groups of four files, Parquet's buffers, the catalogue.
ELSE_MB = 256

#: Transitions of one training of which the cost is measured: catalogue and last commits cost the same for any length.
LENGTHS = {"cartpole": 100_000, "stocks": 100_000, "native": 300_000}
#: The default of `record.memory_mb`.
MEMORY_MB = 256
PPO = {"n_steps": 256, "batch_size": 64, "n_epochs": 10, "learning_rate": 3e-4}
INDICATORS = ["macd", "rsi_30", "cci_30", "dx_30", "close_30_sma", "close_60_sma", "boll_ub", "boll_lb"]
PARTS = ("cartpole", "stocks", "native", "speed", "memory")


def world(name: str) -> dict[str, Any]:
    """The environment's part of a spec."""
    if name == "cartpole":
        return {"env": {"class": "cartpole"}}
    return {
        "env": {"class": "stock_trading"},
        "data_pipeline": {
            "class": "synthetic",
            "kwargs": {"n_assets": 30, "n_bars": 2000, "seed": 0, "features": INDICATORS},
        },
    }


def train(
    name: str, agent: str, timesteps: int, envs: int, home: Path, *, recorded: bool, memory_mb: int = MEMORY_MB
) -> dict[str, Any]:
    """One run; gives the recording's report."""
    from alphaswarm_rl import RLExperimentSpec, RLRuntime, Settings
    from alphaswarm_rl.ledger import Ledger
    from alphaswarm_rl.settings import LakeSettings, RecordSettings

    settings = Settings(
        home=home,
        record=RecordSettings(memory_mb=memory_mb),
        # Contestants that take turns need more time on the clock than alone, where such a run ends before its first
        # commit by time.
        lake=LakeSettings(commit_seconds=3600) if agent != "random" else LakeSettings(),
    )
    spec = RLExperimentSpec.from_data(
        {
            "name": f"recording-{name}",
            **world(name),
            "agent": {"class": agent, "kwargs": {} if agent == "random" else PPO},
            "training": {"total_timesteps": timesteps, "n_envs": envs, "seed": 0},
            "trajectory_store": {"enabled": recorded},
        }
    )
    run = RLRuntime(spec, settings).train()
    if run.status != "completed":
        raise SystemExit(f"run {run.run_id} is {run.status}")
    with Ledger.open(settings) as ledger:
        report: dict[str, Any] = ledger.run(run.run_id).recording or {}
    if report.get("undelivered"):
        raise SystemExit(f"not everything is committed: {report['problem']}")
    return report


def cost(part: str, timesteps: int, pairs: int) -> Line:
    """CPU time of training, recorded over not recorded."""
    name, agent, most = ("stocks", "ppo_inhouse", MOST_NATIVE_COST) if part == "native" else (part, "ppo", MOST_COST)
    with tempfile.TemporaryDirectory() as folder:
        bare, recorded, again = (
            partial(train, name, agent, envs=8, home=Path(folder) / who, recorded=who == "recorded")
            for who in ("bare", "recorded", "again")
        )
        found = pairs_of.cost(bare, recorded, again, timesteps, pairs)
    details = f"{found}; {pairs} pairs of {timesteps:,} steps"
    return at_most(f"{agent} on {name}, upper end", found.price.high, most, details)


def resident_mb() -> float:
    """Memory of this process that is in use."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def watched(name: str, timesteps: int, envs: int, memory_mb: int, *, recorded: bool) -> dict[str, Any]:
    """One run of the random agent in this process after a short one, with its memory watched."""
    with tempfile.TemporaryDirectory() as folder:
        train(name, "random", 20 * envs, envs, Path(folder), recorded=recorded, memory_mb=memory_mb)
        before = highest = resident_mb()
        done = threading.Event()

        def watch() -> None:
            nonlocal highest
            while not done.wait(0.02):
                highest = max(highest, resident_mb())

        watcher = threading.Thread(target=watch)
        watcher.start()
        began = time.perf_counter()
        report = train(name, "random", timesteps, envs, Path(folder), recorded=recorded, memory_mb=memory_mb)
        spent = time.perf_counter() - began
        done.set()
        watcher.join()
    return {"seconds": spent, "before_mb": before, "highest_mb": highest, "report": report}


def apart(name: str, timesteps: int, envs: int, memory_mb: int, *, recorded: bool) -> dict[str, Any]:
    """The same in a process of its own, so that nobody else's memory counts."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(watched, (name, timesteps, envs, memory_mb), {"recorded": recorded})


def speed(timesteps: int, memory_mb: int) -> list[Line]:
    """Rows per second at full speed, and memory beside the same run without recording."""
    bare, recorded = (apart("stocks", timesteps, 64, memory_mb, recorded=recorded) for recorded in (False, True))
    rows, spent = recorded["report"]["rows"], recorded["seconds"]
    rate, waited = sum(rows.values()) / spent, recorded["report"]["waited_s"]
    more = recorded["highest_mb"] - bare["highest_mb"]
    counts = ", ".join(f"{kind} {count:,}" for kind, count in rows.items())
    return [
        at_least(
            "rows/s into the tables",
            rate,
            LEAST_ROWS_PER_S,
            f"{counts}; {spent:.1f} s, of which the loop waited {waited} s; not recorded {bare['seconds']:.1f} s",
        ),
        at_most(
            "more memory than not recorded, MB",
            more,
            memory_mb + ELSE_MB,
            f"most {recorded['highest_mb']:.0f} MB, not recorded {bare['highest_mb']:.0f} MB",
        ),
    ]


def memory(timesteps: int, memory_mb: int) -> Line:
    """How far memory rises over a long run."""
    run = apart("cartpole", timesteps, 256, memory_mb, recorded=True)
    rise = run["highest_mb"] - run["before_mb"]
    details = (
        f"{timesteps:,} steps in {run['seconds']:.1f} s, from {run['before_mb']:.0f} to {run['highest_mb']:.0f} MB"
    )
    return at_most("rise of memory, MB", rise, memory_mb + ELSE_MB, details)


def main() -> int:
    """Measures and judges."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=PARTS, default=PARTS, metavar="part", help=", ".join(PARTS))
    parser.add_argument("--scale", type=float, default=1.0, help="of all lengths")
    parser.add_argument("--pairs", type=int, default=FEWEST_PAIRS)
    parser.add_argument("--memory-mb", type=int, default=MEMORY_MB, help="record.memory_mb of speed and memory")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.pairs < FEWEST_PAIRS:
        parser.error(f"an interval needs at least {FEWEST_PAIRS} pairs")
    lines: list[Line] = []
    for name, timesteps in LENGTHS.items():
        if name in arguments.parts:
            lines.append(cost(name, int(timesteps * arguments.scale), arguments.pairs))
    if "speed" in arguments.parts:
        lines += speed(int(1_000_000 * arguments.scale), arguments.memory_mb)
    if "memory" in arguments.parts:
        lines.append(memory(int(10_000_000 * arguments.scale), arguments.memory_mb))
    return tell(machine(), lines, as_json=arguments.json)


if __name__ == "__main__":
    sys.exit(main())

"""Our PPO beside Stable-Baselines3's and sbx's: steps per second of whole trainings, and what was learnt.

    python benchmarks/native_ppo.py [cartpole] [stocks] [--rounds 3] [--json]

cartpole: CartPole-v1, standard setting (8 environments x 256 steps, batches of 64, 10 epochs) and fast setting (64 x
128, batches of 2048, 4 epochs for the peers; ours takes more and smaller steps in less time), 100,000 and 200,000
transitions, one thread. Ours is run by hand (the default for plain MLPs) and through torch (`path: torch`).
stocks: 30 stocks with 8 indicators, fast setting, all of it through `RLRuntime`; beside it Stable-Baselines3 on the
same environment and on gym-anytrading's.

Each training is a process of its own, what it compiles included; contestants take turns, and the median of the rounds
counts. A peer that is not installed (`make bench-peers`) is told.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SBX = Path(".venv-sbx") / "bin" / "python"
SETTINGS: dict[str, dict[str, int]] = {
    "std": {"envs": 8, "n_steps": 256, "batch_size": 64, "n_epochs": 10},
    "fast": {"envs": 64, "n_steps": 128, "batch_size": 2048, "n_epochs": 4},
}
#: What our fast setting does otherwise, so that it learns too.
OURS_FAST: dict[str, Any] = {"batch_size": 512, "n_epochs": 8, "learning_rate": 1e-3}
CONTESTANTS = {
    "cartpole": ("ours", "ours-torch", "sb3", "sbx"),
    "stocks": ("ours", "sb3", "sb3-anytrading"),
}
STEPS = {("cartpole", "std"): 100_000, ("cartpole", "fast"): 200_000, ("stocks", "fast"): 400_000}
SEEDS = (1, 2, 3)


def one(contestant: str, task: str, setting: str, seed: int) -> dict[str, float] | None:
    """One training in a process of its own: steps per second and the mean return afterwards."""
    python = SBX if contestant == "sbx" else Path(sys.executable)
    if not python.exists():
        return None
    script = HERE / "native_ppo_contestant.py"
    command = [str(python), str(script), contestant, task, setting, str(seed), str(STEPS[task, setting])]
    threads = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS", "NUMEXPR")}
    done = subprocess.run(command, env=os.environ | threads, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"{contestant} on {task}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return None
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(task: str, setting: str, rounds: int) -> dict[str, dict[str, Any]]:
    """Every contestant, in turn."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in CONTESTANTS[task]}
    for number in range(rounds):
        names = list(found)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            result = one(name, task, setting, SEEDS[number % len(SEEDS)])
            if result is not None:
                found[name].append(result)
    return {
        name: {
            "steps_per_s": statistics.median(result["steps_per_s"] for result in results),
            "returns": [result["mean_return"] for result in results],
        }
        for name, results in found.items()
        if results
    }


def main() -> int:
    """Measures and judges."""
    sys.path.insert(0, str(HERE))
    from judging import at_least, tell
    from pairs import machine

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", choices=("cartpole", "stocks"), default=("cartpole", "stocks"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    lines = []
    if "cartpole" in arguments.tasks:
        bounds = {
            ("std", "ours", "sb3"): 3.0,
            ("std", "ours", "sbx"): 1.7,
            ("std", "ours-torch", "sb3"): 1.8,
            ("std", "ours-torch", "sbx"): 1.1,
            ("fast", "ours", "sb3"): 2.0,
        }
        for setting in ("std", "fast"):
            found = measure("cartpole", setting, arguments.rounds)
            for (where, ours, peer), bound in bounds.items():
                if where == setting and ours in found and peer in found:
                    mine, theirs = found[ours]["steps_per_s"], found[peer]["steps_per_s"]
                    details = f"{mine:,.0f} and {theirs:,.0f} steps/s"
                    lines.append(at_least(f"cartpole {setting}: {ours} / {peer}", mine / theirs, bound, details))
                elif where == setting:
                    print(f"not run: {peer}", file=sys.stderr)
            for name in ("ours", "ours-torch"):
                returns = found[name]["returns"]
                listed = ", ".join(f"{value:.0f}" for value in returns)
                lines.append(
                    at_least(f"cartpole {setting}: {name}, worst seed", min(returns), 475, f"returns {listed}")
                )
    if "stocks" in arguments.tasks:
        found = measure("stocks", "fast", arguments.rounds)
        mine = found["ours"]["steps_per_s"]
        lines.append(at_least("stocks fast: ours, steps/s", mine, 25_000, "end to end through RLRuntime"))
        for peer in ("sb3", "sb3-anytrading"):
            if peer in found:
                theirs = found[peer]["steps_per_s"]
                details = f"{mine:,.0f} and {theirs:,.0f} steps/s"
                lines.append(at_least(f"stocks fast: ours / {peer}", mine / theirs, 1.0, details))
    return tell(machine(), lines, as_json=arguments.json)


if __name__ == "__main__":
    sys.exit(main())

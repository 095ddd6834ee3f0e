"""What telemetry costs: CPU time of training with metrics, traces per episode and logs, over training without.

    python benchmarks/telemetry.py [cartpole] [native] [steps] [--scale 1.0] [--pairs 11] [--json]

cartpole: PPO of Stable-Baselines3 on CartPole with all three signals on, written to files, and without, in turn, in CPU
time of the whole process with all its threads. Nothing is recorded in either. The upper end of the ratio's 90 %
interval may be 1.03.
native: the same of our own PPO on 30 stocks, which takes far less time itself; it may be 1.03 too.
steps: the same with a span for every step of every environment. It is allowed to cost, and says what.

Without a word all of them run. `--scale` shortens them.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from functools import partial
from pathlib import Path

import pairs as pairs_of
from judging import Line, at_most, tell
from pairs import FEWEST_PAIRS, Ratio, machine
from recording import world

MOST_COST = 1.03

#: Transitions of one training: opening and the last flush cost the same for any length.
TIMESTEPS = {"cartpole": 100_000, "native": 200_000, "steps": 20_000}
#: Environment and agent.
WHAT = {"cartpole": ("cartpole", "ppo"), "native": ("stocks", "ppo_inhouse"), "steps": ("cartpole", "ppo")}
PPO = {"n_steps": 256, "batch_size": 64, "n_epochs": 10, "learning_rate": 3e-4}
PARTS = tuple(TIMESTEPS)


def train(part: str, timesteps: int, home: Path, *, exported: bool) -> None:
    """One run."""
    from alphaswarm_rl import RLExperimentSpec, RLRuntime, Settings

    on = {"enable": exported}
    name, agent = WHAT[part]
    settings = Settings.model_validate(
        {
            "home": home,
            "registry": {"enable": False},
            "metrics": on,
            "traces": {**on, "trace_steps": exported and part == "steps"},
            "logs": on,
        }
    )
    spec = RLExperimentSpec.from_data(
        {
            "name": f"telemetry-{part}",
            **world(name),
            "agent": {"class": agent, "kwargs": PPO},
            "training": {"total_timesteps": timesteps, "n_envs": 8, "seed": 0},
            "trajectory_store": {"enabled": False},
        }
    )
    run = RLRuntime(spec, settings).train()
    if run.status != "completed":
        raise SystemExit(f"run {run.run_id} is {run.status}")


def spans_in(home: Path) -> int:
    """How many spans the file has: nothing was lost, and nothing was left out."""
    lines = (home / "telemetry" / "traces.jsonl").read_text().splitlines()
    return sum(line.count('"spanId"') for line in lines)


def cost(part: str, scale: float, pairs: int) -> tuple[Ratio, str]:
    """CPU time of training, with export over without, and what it comes from."""
    timesteps = int(TIMESTEPS[part] * scale)
    with tempfile.TemporaryDirectory() as folder:
        bare, exported, again = (
            partial(train, part, home=Path(folder) / who, exported=who == "exported")
            for who in ("bare", "exported", "again")
        )
        found = pairs_of.cost(bare, exported, again, timesteps, pairs)
        spans = spans_in(Path(folder) / "exported") // pairs
    if part == "steps" and spans < timesteps:
        raise SystemExit(f"only {spans:,} spans of {timesteps:,} steps arrived")
    return found.price, f"{found}; {spans:,} spans a round; {pairs} pairs of {timesteps:,} steps"


def main() -> int:
    """Measures and judges."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=PARTS, default=PARTS, metavar="part", help=", ".join(PARTS))
    parser.add_argument("--scale", type=float, default=1.0, help="of all lengths")
    parser.add_argument("--pairs", type=int, default=FEWEST_PAIRS)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.pairs < FEWEST_PAIRS:
        parser.error(f"an interval needs at least {FEWEST_PAIRS} pairs")
    lines: list[Line] = []
    for part in arguments.parts:
        price, details = cost(part, arguments.scale, arguments.pairs)
        if part == "steps":
            lines.append(Line("a span per step, median", price.median, "is reported", True, details))
        else:
            name, agent = WHAT[part]
            lines.append(at_most(f"{agent} on {name}, upper end", price.high, MOST_COST, details))
    return tell(machine(), lines, as_json=arguments.json)


if __name__ == "__main__":
    sys.exit(main())

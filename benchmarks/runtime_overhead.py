"""What the runtime adds to bare Stable-Baselines3: ledger, events, episode statistics, halting, checkpoints, models.

    python benchmarks/runtime_overhead.py [--pairs 11] [--timesteps 51200] [--json]

PPO on CartPole-v1 with eight environments and the same hyper-parameters on both sides, with all that a run does by
default but the recording of its steps, which `recording.py` measures. Passes when the upper end of the 90 % interval of
the CPU-time ratio is at most 1.05.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from functools import partial
from pathlib import Path

from judging import at_most, tell
from pairs import FEWEST_PAIRS, cost, machine

MOST = 1.05
PPO = {"n_steps": 256, "batch_size": 64, "n_epochs": 10, "learning_rate": 3e-4}


def bare(timesteps: int) -> None:
    """SB3 as its documentation shows it."""
    import torch
    from stable_baselines3 import PPO as SB3_PPO
    from stable_baselines3.common.env_util import make_vec_env

    torch.set_num_threads(1)
    env = make_vec_env("CartPole-v1", n_envs=8, seed=0)
    SB3_PPO("MlpPolicy", env, seed=0, device="cpu", **PPO).learn(timesteps)
    env.close()


def through_the_runtime(timesteps: int, home: Path) -> None:
    """The same through `RLRuntime.train`."""
    from alphaswarm_rl import RLExperimentSpec, RLRuntime, Settings

    spec = RLExperimentSpec.from_data(
        {
            "name": "overhead",
            "env": {"class": "gymnasium", "kwargs": {"id": "CartPole-v1"}},
            "agent": {"class": "ppo", "kwargs": PPO},
            "training": {"total_timesteps": timesteps, "n_envs": 8, "seed": 0},
            "trajectory_store": {"enabled": False},
        }
    )
    run = RLRuntime(spec, Settings(home=home)).train()
    if run.status != "completed":
        raise SystemExit(f"run {run.run_id} is {run.status}")


def main() -> int:
    """Measures and judges."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=FEWEST_PAIRS)
    parser.add_argument("--timesteps", type=int, default=51_200)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.pairs < FEWEST_PAIRS:
        parser.error(f"an interval needs at least {FEWEST_PAIRS} pairs")
    count = arguments.timesteps
    with tempfile.TemporaryDirectory() as home:
        found = cost(bare, partial(through_the_runtime, home=Path(home)), bare, count, arguments.pairs)
    line = at_most(
        "RLRuntime over SB3, upper end", found.price.high, MOST, f"{found}; {arguments.pairs} pairs of {count:,} steps"
    )
    return tell(machine(), [line], as_json=arguments.json)


if __name__ == "__main__":
    sys.exit(main())

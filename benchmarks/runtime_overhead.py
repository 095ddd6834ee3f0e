"""What the runtime adds to bare Stable-Baselines3: ledger, events, episode statistics, halting, checkpoints.

    python benchmarks/runtime_overhead.py [--pairs 11] [--timesteps 20480] [--json]

PPO on CartPole-v1 with eight environments and the same hyper-parameters on both sides. Passes when the upper end of the
90 % interval of the CPU-time ratio is at most 1.05.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import torch
from pairs import FEWEST_PAIRS, interleave, machine, ratio

MOST = 1.05
PPO = {"n_steps": 256, "batch_size": 64, "n_epochs": 10, "learning_rate": 3e-4}


def bare(timesteps: int) -> None:
    """SB3 as its documentation shows it."""
    from stable_baselines3 import PPO as SB3_PPO
    from stable_baselines3.common.env_util import make_vec_env

    env = make_vec_env("CartPole-v1", n_envs=8, seed=0)
    SB3_PPO("MlpPolicy", env, seed=0, device="cpu", **PPO).learn(timesteps)
    env.close()


def through_the_runtime(timesteps: int, home: Path) -> None:
    """The same through `RLRuntime.train`, with everything it does by default."""
    from alphaswarm_rl import RLExperimentSpec, RLRuntime, Settings

    spec = RLExperimentSpec.from_data(
        {
            "name": "overhead",
            "env": {"class": "gymnasium", "kwargs": {"id": "CartPole-v1"}},
            "agent": {"class": "ppo", "kwargs": PPO},
            "training": {"total_timesteps": timesteps, "n_envs": 8, "seed": 0},
        }
    )
    RLRuntime(spec, Settings(home=home)).train()


def main() -> int:
    """Measures and judges."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=11)
    parser.add_argument("--timesteps", type=int, default=20_480)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.pairs < FEWEST_PAIRS:
        parser.error(f"an interval needs at least {FEWEST_PAIRS} pairs")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as home:
        times = interleave(
            {
                "bare": lambda: bare(arguments.timesteps),
                "runtime": lambda: through_the_runtime(arguments.timesteps, Path(home)),
                "bare again": lambda: bare(arguments.timesteps),
            },
            arguments.pairs,
        )
    cost, noise = ratio(times["runtime"], times["bare"]), ratio(times["bare again"], times["bare"])
    passed = cost.high <= MOST
    if arguments.json:
        report = {
            "machine": machine(),
            "pairs": arguments.pairs,
            "runtime_over_bare": asdict(cost),
            "a_over_a": asdict(noise),
            "passed": passed,
        }
        print(json.dumps(report))
    else:
        print(f"machine          {machine()}")
        print(f"pairs            {arguments.pairs} of {arguments.timesteps} transitions")
        print(f"runtime / bare   {cost}")
        print(f"bare / bare      {noise}")
        print(f"{'PASS' if passed else 'FAIL'}: the upper end may be {MOST}")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())

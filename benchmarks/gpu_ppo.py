"""Our PPO with environment and agent on one GPU: steps per second end to end, and whether it learns.

    python benchmarks/gpu_ppo.py stocks [--num-envs 65536] [--rollouts 20] [--billion] [--profile]
    python benchmarks/gpu_ppo.py oracle [--num-envs 65536]
    python benchmarks/gpu_ppo.py repeat

stocks: 30 stocks with 8 indicators, MLP 64x64, GAE, 4 epochs; rollout, update and episode statistics. Steps per second
are those of the rollouts after the first ones, which compile. `--billion` trains a billion steps.
oracle: the task whose observation tells the next return, trained and judged on the GPU until its deterministic policy
has 95 % of the optimum, paired on the same episodes; the seconds it took, compilation included.
repeat: two trainings on stocks from one seed, each in a process of its own that compiles for itself; what they learnt
must be the same to the last bit.

Needs NumPy, torch, gymnasium, pydantic, PyYAML and threadpoolctl.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np
import torch
from gpu_env import build, synthetic_panel

from alphaswarm_rl.agents.native.ppo import PpoInhouse
from alphaswarm_rl.core.contracts import AgentRequest
from alphaswarm_rl.envs.device_episodes import DeviceEpisodes

WARM_UP = 3
#: The share of the optimum that counts as solved, and episodes that it is judged by.
SOLVED, EPISODES = 0.95, 2048


class Hooks:
    """Notes when each rollout is done; halts after so many of them."""

    def __init__(self, rollouts: int, episodes: DeviceEpisodes) -> None:
        self.times = [time.perf_counter()]
        self.metrics: list[dict[str, float]] = []
        self.mean_rewards: list[float] = []
        self._rollouts = rollouts
        self._episodes = episodes

    def boundary(self, metrics: Any) -> None:
        """After a rollout and its update; the host waits for the device here."""
        sums = self._episodes.sums()
        if sums.count:
            self.mean_rewards.append(sums.total_reward / sums.count)
        self.metrics.append(dict(metrics))
        self.times.append(time.perf_counter())

    def decided(self, values: Any, log_probs: Any) -> None:
        """Nothing is recorded."""

    def should_halt(self) -> bool:
        """After the last rollout."""
        return len(self.metrics) >= self._rollouts


def stocks(arguments: argparse.Namespace) -> dict[str, Any]:
    """Trains on stocks, and gives what was measured."""
    env = build(
        "stock_trading", synthetic_panel(), arguments.num_envs, "next_open", device=arguments.device, compiled=None
    )
    watched = DeviceEpisodes(env)
    config = PpoInhouse.Config(
        n_steps=arguments.n_steps,
        batch_size=arguments.num_envs * arguments.n_steps // arguments.minibatches,
        n_epochs=4,
        precision=arguments.precision,
    )
    learner = PpoInhouse(config).build(AgentRequest.for_env(env=watched, seed=0, device=arguments.device))
    per_rollout = arguments.num_envs * arguments.n_steps
    rollouts = -(-1_000_000_000 // per_rollout) if arguments.billion else arguments.rollouts + WARM_UP
    hooks = Hooks(rollouts, watched)
    began = time.perf_counter()
    if arguments.profile:
        profile(learner, watched, per_rollout, hooks)
    learner.train(watched, rollouts * per_rollout, hooks)
    spent = time.perf_counter() - began
    times = hooks.times
    rate = per_rollout * (len(times) - 1 - WARM_UP) / (times[-1] - times[WARM_UP])
    return {
        "steps_per_s": rate,
        "steps": learner.timesteps,
        "seconds": spent,
        "first_rollouts_s": [round(b - a, 2) for a, b in itertools.pairwise(times)][:WARM_UP],
        "mean_rewards": [round(value, 3) for value in (*hooks.mean_rewards[:1], *hooks.mean_rewards[-1:])],
        "memory_gb": torch.cuda.max_memory_allocated() / 1e9 if arguments.device != "cpu" else None,
        "metrics": {name: round(value, 5) for name, value in hooks.metrics[-1].items()},
    }


def oracle(arguments: argparse.Namespace) -> dict[str, Any]:
    """Trains on the oracle task until it is solved."""
    from alphaswarm_rl.core.contracts import EnvRequest
    from alphaswarm_rl.envs.truth.oracle_feature import OracleFeature

    component = OracleFeature()
    solution = component.solution()

    def make(num_envs: int, seed: int, phase: Any) -> Any:
        return component.build(
            EnvRequest(num_envs=num_envs, seed=seed, phase=phase, backend="torch", device=arguments.device)
        )

    def mean_reward(act: Any) -> float:
        env = make(EPISODES, 1, "evaluate")
        seen, _ = env.reset()
        total = 0.0
        for _ in range(component.config.horizon):
            here = seen.cpu().numpy()
            actions = torch.as_tensor(np.asarray(act(here)), device=env.device).to(torch.int64)
            seen, rewards, *_ = env.step(actions.reshape(-1))
            total += float(rewards.mean())
        return total / component.config.horizon

    began = time.perf_counter()
    best = mean_reward(solution.act)
    env = DeviceEpisodes(make(arguments.num_envs, 0, "train"))
    config = PpoInhouse.Config(n_steps=16, batch_size=arguments.num_envs, n_epochs=4, learning_rate=1e-3)
    learner = PpoInhouse(config).build(AgentRequest.for_env(env=env, seed=0, device=arguments.device))
    nobody = np.zeros(EPISODES, np.bool_)
    judged: list[tuple[float, float]] = []
    while not judged or (judged[-1][1] < SOLVED and judged[-1][0] < 120):
        hooks = Hooks(2, env)
        learner.train(env, learner.timesteps + 2 * 16 * arguments.num_envs, hooks)
        mine = mean_reward(lambda seen: learner.predict(seen, None, nobody, deterministic=True)[0])
        fraction = 1.0 - (best - mine) / (solution.j_opt - solution.j_base)
        judged.append((round(time.perf_counter() - began, 2), round(fraction, 4)))
    return {"solved": judged[-1][1] >= SOLVED, "seconds_and_fractions": judged, "steps": learner.timesteps}


def repeat(arguments: argparse.Namespace) -> dict[str, Any]:
    """Trains in two processes with caches of their own, and compares what they learnt."""
    found = []
    for _ in range(2):
        with tempfile.TemporaryDirectory() as cache:
            caches = dict.fromkeys(("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"), cache)
            command = [sys.executable, __file__, "learnt", "--device", arguments.device]
            command += ["--precision", arguments.precision]
            done = subprocess.run(command, env=os.environ | caches, capture_output=True, text=True, check=True)
        found.append(json.loads(done.stdout))
    return {"same": found[0] == found[1], "differing": [name for name in found[0] if found[0][name] != found[1][name]]}


def learnt(arguments: argparse.Namespace) -> dict[str, str]:
    """Trains, and gives a checksum of every array of the state."""
    env = DeviceEpisodes(
        build("stock_trading", synthetic_panel(), 4096, "next_open", device=arguments.device, compiled=None)
    )
    config = PpoInhouse.Config(n_steps=32, batch_size=16_384, n_epochs=4, precision=arguments.precision)
    learner = PpoInhouse(config).build(AgentRequest.for_env(env=env, seed=0, device=arguments.device))
    learner.train(env, 20 * 32 * 4096, Hooks(20, env))
    state = learner.get_state()
    return {name: hashlib.sha256(array.tobytes()).hexdigest() for name, array in state.arrays.items()}


def profile(learner: Any, env: Any, per_rollout: int, hooks: Hooks) -> None:
    """Prints where the device's time goes in one rollout and update."""
    hooks._rollouts = WARM_UP
    learner.train(env, WARM_UP * per_rollout, hooks)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as found:
        hooks._rollouts = WARM_UP + 1
        learner.train(env, (WARM_UP + 1) * per_rollout, hooks)
    print(found.key_averages().table(sort_by="cuda_time_total", row_limit=25))


def main() -> int:
    """Measures and tells."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=("stocks", "oracle", "repeat", "learnt"))
    parser.add_argument("--num-envs", type=int, default=65_536)
    parser.add_argument("--n-steps", type=int, default=32)
    parser.add_argument("--minibatches", type=int, default=8)
    parser.add_argument("--rollouts", type=int, default=20)
    parser.add_argument("--precision", choices=("float32", "tf32"), default="tf32")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--billion", action="store_true")
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    print(
        json.dumps(
            {"stocks": stocks, "oracle": oracle, "repeat": repeat, "learnt": learnt}[arguments.task](arguments),
            indent=2,
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

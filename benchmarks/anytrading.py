"""Steps a second of the native `anytrading` beside gym-anytrading's own environment.

    python benchmarks/anytrading.py [--rounds 11] [--json]

One step is one step of one environment, random actions, resets at episode ends included; one thread. Contestants take
turns, figures are medians of CPU time, so that a busy machine does not count. The peer is a single environment made by
`gymnasium.make` without its wrappers, which is the fastest way to step it; `ratio` is ours over the peer's.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import time

import gymnasium
import numpy as np

from alphaswarm_rl import build_from_config
from alphaswarm_rl.core.contracts import EnvRequest

POOL, SIZES, TASKS = 64, (1, 64, 1024), ("forex", "stocks")


class Native:
    """Our environment, batched."""

    def __init__(self, task: str, num_envs: int) -> None:
        component = build_from_config({"class": "anytrading", "kwargs": {"task": task}}, kind="env")
        self.task, self.num_envs = task, num_envs
        self.env = component.build(EnvRequest(num_envs=num_envs, seed=0))
        self.actions = list(np.random.default_rng(0).integers(0, 2, (POOL, num_envs)))
        self.speeds: list[float] = []
        self.env.reset()
        self.run(200)

    def run(self, steps: int) -> None:
        """Steps the whole batch."""
        step, actions = self.env.step, self.actions
        for number in range(steps):
            step(actions[number % POOL])

    def measure(self) -> None:
        """One round, of about a tenth of a second."""
        steps = max(1000, 10_000 // self.num_envs)
        started = time.thread_time()
        self.run(steps)
        self.speeds.append(self.num_envs * steps / (time.thread_time() - started))


class Peer(Native):
    """The library's environment."""

    def __init__(self, task: str) -> None:
        self.task, self.num_envs = task, 1
        self.env = gymnasium.make(f"{task}-v0", disable_env_checker=True).unwrapped
        self.actions = np.random.default_rng(0).integers(0, 2, POOL).tolist()
        self.speeds = []
        self.env.reset(seed=0)
        self.run(200)

    def run(self, steps: int) -> None:
        """Steps the one environment."""
        env, actions = self.env, self.actions
        for number in range(steps):
            if env.step(actions[number % POOL])[3]:
                env.reset()


def main() -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    import gym_anytrading  # noqa: F401 (registers its ids)

    peers = {task: Peer(task) for task in TASKS}
    ours = [Native(task, num_envs) for task in TASKS for num_envs in SIZES]
    for _ in range(arguments.rounds):
        for contestant in (*peers.values(), *ours):
            contestant.measure()
    rows = []
    for native in ours:
        speed, peer = statistics.median(native.speeds), statistics.median(peers[native.task].speeds)
        name = f"anytrading_{native.task}_{native.num_envs}"
        figures = {"steps_per_s": speed, "peer": "gym-anytrading", "peer_steps_per_s": peer, "ratio": speed / peer}
        rows.append({"name": name, "num_envs": native.num_envs, **figures})
    if arguments.json:
        print(json.dumps({"machine": platform.processor() or platform.machine(), "rows": rows}))
    else:
        for row in rows:
            speeds = f"{row['steps_per_s']:12,.0f}/s  {row['peer']} {row['peer_steps_per_s']:9,.0f}/s"
            print(f"{row['name']:24} {speeds}  {row['ratio']:6.1f}x")
    return 0


if __name__ == "__main__":
    sys.exit(main())

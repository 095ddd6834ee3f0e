"""The truth suite: tasks whose optimum is known, and how agents are trained on them. See docs/truth.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from alphaswarm_rl.core.errors import OptionError, nearest
from alphaswarm_rl.core.kinds import EnvComponent
from alphaswarm_rl.core.refs import build_from_config
from alphaswarm_rl.envs.batched_cartpole import cartpole_solution
from alphaswarm_rl.envs.truth.task import Solution, TruthComponent

#: The most that any task may be trained for.
MOST_STEPS = 5_000_000
#: Seed of the first training; the next have the next ones. Pilot trainings, by which parameters were chosen, had the
#: seeds 1 to 5: figures of those would flatter.
FIRST_SEED = 101
#: Environments that are stepped together in training.
NUM_ENVS = 64
#: Episodes that a trained policy, the optimum and the policy without skill are compared on.
EPISODES = 512

#: Parameters of the agents, the same for every task; others are trained with their own defaults.
_PPO = {"n_steps": 128, "batch_size": 512, "n_epochs": 10, "learning_rate": 3e-4, "lr_schedule": "linear"}
AGENTS: Mapping[str, Mapping[str, Any]] = {"ppo": _PPO, "ppo_inhouse": _PPO}


@dataclass(frozen=True)
class Task:
    """One task.

    Attributes:
        name: What it is called.
        env: The environment.
        steps: Transitions that an agent is trained for, with each seed.
        needed: What the lower end of the 90 % interval of the fraction must reach.
        kwargs: Parameters of the environment.
        per_step: Whether J is counted per step; otherwise per episode.
    """

    name: str
    env: str
    steps: int
    needed: float
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    per_step: bool = True

    def component(self) -> EnvComponent:
        """The environment's component."""
        component: EnvComponent = build_from_config({"class": self.env, "kwargs": dict(self.kwargs)}, kind="env")
        return component

    def solution(self) -> Solution:
        """Its optimum."""
        component = self.component()
        if isinstance(component, TruthComponent):
            return component.solution()
        return cartpole_solution(component.config.max_episode_steps)


TASKS = {
    task.name: task
    for task in (
        Task("cartpole", "cartpole", 500_000, 0.95, per_step=False),
        Task("oracle", "oracle_feature", 1_000_000, 0.95),
        Task("noise", "noise_after_costs", 1_000_000, 0.95),
        Task("merton", "merton_portfolio", 1_000_000, 0.90),
        Task("ou", "ou_signal", 2_000_000, 0.90),
        Task("regime", "regime_allocation", 500_000, 0.95),
    )
}


def tasks_named(names: tuple[str, ...]) -> list[Task]:
    """The tasks of those names; all without names."""
    for name in names:
        if name not in TASKS:
            raise OptionError(f"task {name!r}", "the truth suite has no such task", nearest(name, TASKS))
    return [TASKS[name] for name in names] if names else list(TASKS.values())

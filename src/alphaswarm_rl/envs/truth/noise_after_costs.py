"""A market of noise: its dynamics, and its optimum, which is to stay out."""

from __future__ import annotations

import numpy as np
from pydantic import Field, PositiveInt

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.types import BackendArray, NamedArrays
from alphaswarm_rl.core.view import ArrayFunctions
from alphaswarm_rl.envs.truth.task import FLAT, POSITIONS, Draws, PositionTask, Result, Solution, TaskState


class NoiseAfterCosts(PositionTask):
    """A market of pure noise with costs: what is seen says nothing, and the optimum is to stay out.

    Returns are independent and uniform on [-1, 1]; the last four and the position are seen.
    """

    rl_alias = "noise_after_costs"
    rl_tags = ("discrete", "native", "exact-resume", "torch", "truth")
    noise = ("uniform",)
    columns = ("return", "return_1", "return_2", "return_3", "position")

    class Config(ComponentConfig):
        """Parameters of the task."""

        cost: float = Field(0.2, gt=0, lt=1, description="What one unit traded costs.")
        carry: float = Field(0.1, gt=0, lt=1, description="What one unit held costs per step.")
        horizon: PositiveInt = Field(128, description="Steps of an episode, which is truncated then.")

    def begin(self, noise: Draws, xp: ArrayFunctions) -> NamedArrays:
        """Flat, with nothing seen yet."""
        return {name: xp.zeros_like(noise[0]) for name in self.columns}

    def step(self, state: TaskState, action: BackendArray, noise: Draws, xp: ArrayFunctions) -> Result:
        """A return that nobody could know is earned and seen."""
        now = 2.0 * noise[0] - 1.0
        position, reward, cost = self.hold(state["position"], action, now, xp)
        seen = (now, *(state[name] for name in self.columns[:3]), position)
        return dict(zip(self.columns, seen, strict=True)), reward, cost

    def observe(self, state: TaskState) -> tuple[BackendArray, ...]:
        """The last four returns, newest first, and the position."""
        return tuple(state[name] for name in self.columns)

    def solution(self) -> Solution:
        """Staying out pays 0; the random policy pays for what it trades and holds."""
        config, count = self.config, len(POSITIONS)
        spread = np.abs(POSITIONS[:, None] - POSITIONS)
        # The first trade of an episode is made from flat, the others from a random position.
        traded = (spread[FLAT].mean() + (config.horizon - 1) * spread.mean()) / config.horizon
        return Solution(
            act=lambda observations: np.full(len(observations), FLAT),
            j_opt=0.0,
            j_base=-float(config.cost * traded + config.carry * np.abs(POSITIONS).sum() / count),
            base="random",
            constant=np.array(FLAT),
            by_cost=True,
        )

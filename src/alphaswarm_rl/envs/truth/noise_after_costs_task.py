"""The dynamics of `noise_after_costs`, and its optimum: nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Discrete

from alphaswarm_rl.envs.positions import FLAT, POSITIONS, held
from alphaswarm_rl.envs.truth.solution import Solution
from alphaswarm_rl.envs.truth.task import Arrays, TruthTask


class NoiseAfterCostsTask(TruthTask):
    """See `NoiseAfterCosts`."""

    noise = ("uniform",)
    columns = ("return", "return_1", "return_2", "return_3", "position")

    def action_space(self) -> Space[Any]:
        """0 short, 1 flat, 2 long."""
        return Discrete(len(POSITIONS))

    def begin(self, noise: Sequence[Any], xp: Any) -> Arrays:
        """Flat, with nothing seen yet."""
        return {name: xp.zeros_like(noise[0]) for name in self.columns}

    def step(self, state: Mapping[str, Any], action: Any, noise: Sequence[Any], xp: Any) -> tuple[Arrays, Any, Any]:
        """A return that nobody could know is earned and seen."""
        now = 2.0 * noise[0] - 1.0
        position, reward, cost = held(state["position"], action, now, self.config.cost, self.config.carry, xp)
        seen = (now, *(state[name] for name in self.columns[:3]), position)
        return dict(zip(self.columns, seen, strict=True)), reward, cost

    def observe(self, state: Mapping[str, Any]) -> tuple[Any, ...]:
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

"""A market whose next return is seen: its dynamics, and its optimum by dynamic programming."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from pydantic import Field, PositiveInt

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.types import Array, BackendArray, NamedArrays
from alphaswarm_rl.core.view import ArrayFunctions
from alphaswarm_rl.envs.truth.task import FLAT, POSITIONS, Draws, PositionTask, Result, Solution, TaskState, mean_reward

#: Points of the grid of returns; the optimum is exact to the square of their distance.
_POINTS = 10_000
_PRECISION = 1e-13


class OracleFeature(PositionTask):
    """A market whose next return is seen: long, flat or short, at a cost of trading and of holding.

    Returns are independent and uniform on [-1, 1]. The optimum is known by dynamic programming.
    """

    rl_alias = "oracle_feature"
    rl_tags = ("discrete", "native", "exact-resume", "torch", "truth")
    noise = ("uniform",)
    columns = ("next_return", "position")

    class Config(ComponentConfig):
        """Parameters of the task."""

        cost: float = Field(0.2, ge=0, lt=1, description="What one unit traded costs.")
        carry: float = Field(0.1, ge=0, lt=1, description="What one unit held costs per step.")
        horizon: PositiveInt = Field(128, description="Steps of an episode, which is truncated then.")

    def begin(self, noise: Draws, xp: ArrayFunctions) -> NamedArrays:
        """Flat, with a first return to see."""
        return {"next_return": 2.0 * noise[0] - 1.0, "position": xp.zeros_like(noise[0])}

    def step(self, state: TaskState, action: BackendArray, noise: Draws, xp: ArrayFunctions) -> Result:
        """The return that was seen is earned; the next one is drawn."""
        position, reward, cost = self.hold(state["position"], action, state["next_return"], xp)
        return {"next_return": 2.0 * noise[0] - 1.0, "position": position}, reward, cost

    def observe(self, state: TaskState) -> tuple[BackendArray, ...]:
        """The next return and the position."""
        return state["next_return"], state["position"]

    def solution(self) -> Solution:
        """By relative value iteration over the three positions."""
        config = self.config
        plan = solve(config.cost, config.carry)

        def act(observations: Array) -> Array:
            seen = observations.astype(np.float64)
            row = np.rint(seen[:, 1]).astype(np.int64) + FLAT
            paid = pays(seen[:, 0], config.cost, config.carry)[np.arange(len(row)), row]
            best: Array = (paid + plan.worth).argmax(axis=-1)
            return best

        start = np.zeros(len(POSITIONS))
        start[FLAT] = 1.0
        return Solution(
            act=act,
            j_opt=mean_reward(plan.pays, plan.moves, start, config.horizon),
            # Returns have mean 0: whoever always holds pays, and whoever never trades does not.
            j_base=0.0,
            base="constant",
            constant=np.array(FLAT),
        )


@dataclass(frozen=True)
class Plan:
    """The optimum by positions.

    Attributes:
        gain: Mean reward per step of an endless episode.
        worth: What a position is worth beyond being flat, (3,).
        pays: Expected reward of a step that begins in each position, (3,).
        moves: Probabilities of the position after it, (3, 3).
    """

    gain: float
    worth: Array
    pays: Array
    moves: Array


def pays(returns: Array, cost: float, carry: float) -> Array:
    """Rewards by return, position before and position after, (..., 3, 3)."""
    after, before = POSITIONS, POSITIONS[:, None]
    paid: Array = returns[..., None, None] * after - cost * np.abs(after - before) - carry * np.abs(after)
    return paid


def solve(cost: float, carry: float, *, discount: float = 1.0) -> Plan:
    """The optimal policy.

    A return is independent of all before, so that a position's worth is the same whatever will be seen.

    Args:
        cost: What one unit traded costs.
        carry: What one unit held costs per step.
        discount: What a reward one step later counts; 1 maximises the mean reward.
    """
    returns = (np.arange(_POINTS) + 0.5) * (2.0 / _POINTS) - 1.0
    paid = pays(returns, cost, carry)
    worth = np.zeros(len(POSITIONS))
    while True:
        value = (paid + discount * worth).max(axis=-1).mean(axis=0)
        # Only differences of worth matter: with the flat position's taken off it converges without a discount too.
        gain, new = float(value[FLAT]), value - value[FLAT]
        if np.abs(new - worth).max() < _PRECISION:
            break
        worth = new
    best = (paid + discount * worth).argmax(axis=-1)
    chosen = np.take_along_axis(paid, best[..., None], axis=-1)[..., 0]
    moves = np.stack([(best == after).mean(axis=0) for after in range(len(POSITIONS))], axis=-1)
    return Plan(gain, worth, chosen.mean(axis=0), moves)

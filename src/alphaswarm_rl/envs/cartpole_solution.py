"""What is known of CartPole: a linear rule balances the pole for ever."""

from __future__ import annotations

from typing import Any

import numpy as np

from alphaswarm_rl.core.contracts import EnvRequest
from alphaswarm_rl.envs.batched_cartpole import BatchedCartPole
from alphaswarm_rl.envs.truth.solution import Solution

Array = np.ndarray[Any, Any]

#: By position, velocity, angle and angular velocity; the sign of the sum is the direction to push into.
_WEIGHTS = np.array([0.1, 0.3, 2.0, 1.0])
#: Episodes that the constant policies are played for.
_PLAYED = 10_000


def cartpole_solution(horizon: int) -> Solution:
    """The optimum of CartPole; J is the number of steps of an episode.

    How long a pole stands that is always pushed into one direction has no closed form: it is played.

    Args:
        horizon: Steps after which an episode is truncated.
    """

    def act(observations: Array) -> Array:
        pushed: Array = observations @ _WEIGHTS > 0
        return pushed.astype(np.int64)

    constant = [_steps_of(action, horizon) for action in (0, 1)]
    return Solution(
        act=act,
        j_opt=float(horizon),
        j_base=max(constant),
        base="constant",
        constant=np.array(int(np.argmax(constant))),
    )


def _steps_of(action: int, horizon: int) -> float:
    """Mean steps of an episode in which one action is taken always."""
    env = BatchedCartPole(EnvRequest(num_envs=_PLAYED, seed=0), max_episode_steps=horizon)
    env.reset()
    standing, steps = np.ones(_PLAYED, dtype=bool), 0
    while standing.any():
        steps += int(standing.sum())
        _, _, terminated, truncated, _ = env.step(np.full(_PLAYED, action))
        standing &= ~(terminated | truncated)
    return steps / _PLAYED

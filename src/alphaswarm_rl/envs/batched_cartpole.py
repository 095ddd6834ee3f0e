"""CartPole-v1 for a whole batch at once, and a linear rule that balances the pole for ever."""

from __future__ import annotations

import math
from typing import Any, NoReturn

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box, Discrete

from alphaswarm_rl.core.contracts import EnvRequest, State
from alphaswarm_rl.core.types import Array, JsonObject
from alphaswarm_rl.envs.base import SeededEnv
from alphaswarm_rl.envs.episodes import checked_pair, matching, refuse_options, refuse_picture, refuse_window
from alphaswarm_rl.envs.truth.task import Solution

# Constants and the order of operations are Gymnasium's, so that every bit agrees.
_GRAVITY = 9.8
_POLE_MASS = 0.1
_TOTAL_MASS = _POLE_MASS + 1.0
_HALF_LENGTH = 0.5
_POLE_MASS_LENGTH = _POLE_MASS * _HALF_LENGTH
_TAU = 0.02
_FORCES = np.array([-10.0, 10.0])
_X_LIMIT = 2.4
_THETA_LIMIT = 12 * 2 * math.pi / 360
_START_LOW, _START_HIGH = -0.05, 0.05

#: By position, velocity, angle and angular velocity; the sign of the sum is the direction to push into.
_WEIGHTS = np.array([0.1, 0.3, 2.0, 1.0])
#: Episodes that the constant policies are played for.
_PLAYED = 10_000


class BatchedCartPole(SeededEnv):
    """Many cart poles in one array.

    Episode e of environment i starts from numbers that depend on the seed and `episode_key` alone.
    """

    def __init__(self, request: EnvRequest, *, max_episode_steps: int = 500) -> None:
        refuse_window("cartpole", request.window)
        high = np.array([_X_LIMIT * 2, np.inf, _THETA_LIMIT * 2, np.inf], np.float32)
        space = Box(-high, high, dtype=np.float32)
        super().__init__(request, observation_space=space, action_space=Discrete(2), draws=4)
        self._max_episode_steps = max_episode_steps
        # One row per variable: each is contiguous, as NumPy's sine wants it.
        self._physics = np.zeros((4, self.num_envs))
        self._steps = np.zeros(self.num_envs, np.int64)

    def reset(self, *, seed: int | None = None, options: JsonObject | None = None) -> tuple[Array, dict[str, Any]]:
        """Starts each environment's next episode; a seed replaces the request's and starts again from episode 0."""
        refuse_options(options, "cartpole")
        self._physics[:] = _start(self._episodes.restart(seed))
        self._steps[:] = 0
        return self._observe(), {}

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        """Moves every cart by one step; ended episodes are followed at once by their next."""
        if self._episodes.numbers[0] < 0:
            raise ResetNeeded("Cannot call step() before calling reset()")
        x, x_dot, theta, theta_dot = self._physics
        cos, sin = np.cos(theta), np.sin(theta)
        forces = _FORCES[checked_pair(actions, self.num_envs, "cartpole", "0 (left) or 1 (right)")]
        temp = (forces + _POLE_MASS_LENGTH * np.square(theta_dot) * sin) / _TOTAL_MASS
        theta_acc = (_GRAVITY * sin - cos * temp) / (
            _HALF_LENGTH * (4.0 / 3.0 - _POLE_MASS * np.square(cos) / _TOTAL_MASS)
        )
        x_acc = temp - _POLE_MASS_LENGTH * theta_acc * cos / _TOTAL_MASS
        x += _TAU * x_dot
        x_dot += _TAU * x_acc
        theta += _TAU * theta_dot
        theta_dot += _TAU * theta_acc
        self._steps += 1

        terminated = (np.abs(x) > _X_LIMIT) | (np.abs(theta) > _THETA_LIMIT)
        ended = terminated | (self._steps >= self._max_episode_steps)
        observations = self._observe()
        infos: dict[str, Any] = {}
        if ended.any():
            infos = {"final_obs": observations, "_final_obs": ended.copy()}
            rows = np.flatnonzero(ended)
            self._physics[:, rows] = _start(self._episodes.advance(rows))
            self._steps[rows] = 0
            observations = self._observe()
        return observations, np.ones(self.num_envs), terminated, ended & ~terminated, infos

    def render(self) -> NoReturn:
        """Not offered."""
        refuse_picture("Use {class: gymnasium, kwargs: {id: CartPole-v1}}.")

    def get_state(self) -> State:
        """Physics, step counters, episode numbers and seed: everything."""
        episodes = self._episodes.state()
        arrays = {"physics": self._physics.copy(), "steps": self._steps.copy(), **episodes.arrays}
        return State(arrays=arrays, data=episodes.data)

    def set_state(self, state: State) -> None:
        """Continues from there, bit for bit."""
        physics, steps = matching(state, "physics", self._physics), matching(state, "steps", self._steps)
        self._episodes.set_state(state)
        self._physics[:] = physics
        self._steps[:] = steps

    def _observe(self) -> Array:
        return np.array(self._physics.T, dtype=np.float32, order="C")


def _start(numbers: Array) -> Array:
    """Initial physics, one column per environment."""
    return (_START_LOW + (_START_HIGH - _START_LOW) * numbers).T


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

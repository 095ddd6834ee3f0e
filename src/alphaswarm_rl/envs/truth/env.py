"""A task with a known optimum as a batched environment, on NumPy; `env_torch` is its twin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from gymnasium.spaces import Box, Discrete

from alphaswarm_rl.arrays.backend import NUMPY_ARRAYS
from alphaswarm_rl.arrays.counter_rng import uniform
from alphaswarm_rl.core.contracts import EnvRequest, State, episode_key
from alphaswarm_rl.core.errors import EnvError
from alphaswarm_rl.core.types import Array, JsonObject
from alphaswarm_rl.envs.base import BaseRLEnv
from alphaswarm_rl.envs.episodes import refuse_window
from alphaswarm_rl.envs.truth.task import TruthComponent

if TYPE_CHECKING:
    from alphaswarm_rl.core.view import ArrayFunctions

_XP = cast("ArrayFunctions", NUMPY_ARRAYS)

#: Stream of the counter generator for the noise of an episode. Number k of step t is made of the generator's block
#: t * K + k where a step draws K numbers; step 0 is the episode's beginning.
NOISE_STREAM = 1


class TruthEnv(BaseRLEnv):
    """Many environments of one task.

    The noise of an episode is drawn when it begins: a function of seed, environment and episode alone.

    Args:
        request: How many, with which seed.
        task: What happens in them.
    """

    def __init__(self, request: EnvRequest, task: TruthComponent) -> None:
        refuse_window(task.rl_alias, request.window)
        space = Box(-np.inf, np.inf, (len(task.columns),), np.float32)
        super().__init__(request, observation_space=space, action_space=task.action_space(), draws=0)
        self.task = task
        self._phase = request.phase
        n = self.num_envs
        self._noise = np.zeros((len(task.noise), task.config.horizon + 1, n))
        self._steps = np.zeros(n, np.int64)
        self._state: dict[str, Array] = task.begin(self._drawn(self._steps), _XP)

    def begin(self, rows: Array, draws: Array) -> None:
        """Puts these environments at the start of an episode."""
        self._draw(rows)
        self._steps[rows] = 0
        begun = self.task.begin([noise[0, rows] for noise in self._noise], _XP)
        for name, array in begun.items():
            self._state[name][rows] = array

    def advance(self, actions: Array) -> tuple[Array, Array, Array, dict[str, Any]]:
        """One step of all."""
        action = self._checked(actions)
        self._steps += 1
        state, rewards, cost = self.task.step(self._state, action, self._drawn(self._steps), _XP)
        # Copies, for a new state may hold arrays of the old one.
        self._state = {name: np.array(array) for name, array in state.items()}
        truncated = self._steps >= self.task.config.horizon
        return rewards, np.zeros_like(truncated), truncated, {"cost": cost}

    def observe(self, rows: Array) -> Array:
        """What these environments show."""
        seen = self.task.observe({name: array[rows] for name, array in self._state.items()})
        return np.stack(seen, axis=-1).astype(np.float32)

    def arrays(self) -> dict[str, Array]:
        """The task's arrays and how far each episode is; its noise is drawn again."""
        return {**self._state, "steps": self._steps}

    def identity(self) -> JsonObject:
        """The task with its parameters."""
        return self.task.identity()

    def set_state(self, state: State) -> None:
        """Continues from there, bit for bit."""
        super().set_state(state)
        self._draw(np.flatnonzero(self._episodes.numbers >= 0))

    def _drawn(self, steps: Array) -> list[Array]:
        """The noise of these steps."""
        return [noise[steps, self._all] for noise in self._noise]

    def _draw(self, rows: Array) -> None:
        """Draws the noise of these environments' current episodes."""
        kinds, length = self.task.noise, self.task.config.horizon + 1
        keys = np.empty((len(rows), 2), np.int64)
        keys[:, 0], keys[:, 1] = episode_key(self._phase, self.num_envs, rows, self._episodes.numbers[rows])  # type: ignore[arg-type]
        drawn = uniform(self._episodes.seed, keys, NOISE_STREAM, 2 * length * len(kinds))
        drawn = drawn.reshape(len(rows), length, len(kinds), 2)
        for index, kind in enumerate(kinds):
            first, second = (np.ascontiguousarray(drawn[:, :, index, half].T) for half in (0, 1))
            if kind == "normal":  # by Box and Muller
                first = np.sqrt(-2.0 * np.log(1.0 - first)) * np.cos(2.0 * np.pi * second)
            self._noise[index][:, rows] = first

    def _checked(self, actions: Array) -> Array:
        actions = np.asarray(actions)
        space = self.single_action_space
        if isinstance(space, Discrete):
            sound = actions.shape == (self.num_envs,) and actions.dtype.kind in "iu"
            sound = sound and bool(((actions >= 0) & (actions < space.n)).all())
        else:
            shape = (self.num_envs, *(space.shape or ()))
            sound = actions.shape == shape and actions.dtype.kind == "f" and bool(np.isfinite(actions).all())
        if not sound:
            raise EnvError(
                f"actions of shape {actions.shape} and type {actions.dtype}",
                f"{self.task.rl_alias} takes {self.num_envs} of {space}",
                "Give one finite action of that space per environment.",
            )
        if isinstance(space, Discrete):
            return actions.astype(np.int64)
        return np.clip(actions.astype(np.float64), -1.0, 1.0)

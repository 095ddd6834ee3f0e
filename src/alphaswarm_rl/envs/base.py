"""The bases of batched environments: of our own, by four methods over arrays, and of those that watch another."""

from __future__ import annotations

import abc
from typing import Any, NoReturn

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from alphaswarm_rl.core.contracts import AnyVectorEnv, EnvRequest, State
from alphaswarm_rl.core.types import AnySpace, Array, JsonObject
from alphaswarm_rl.envs.episodes import (
    Episodes,
    check_identity,
    checked_request,
    matching,
    refuse_options,
    refuse_picture,
)


class SeededEnv(VectorEnv[Array, Array, Array]):
    """What batched environments of our own begin with: their spaces, and episodes that are numbered and seeded.

    Args:
        request: How many, with which seed.
        observation_space: Of one environment.
        action_space: Of one environment.
        draws: Random numbers that an episode starts from.
    """

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": []}  # noqa: RUF012  (Gymnasium says so)

    def __init__(
        self, request: EnvRequest, *, observation_space: AnySpace, action_space: AnySpace, draws: int = 1
    ) -> None:
        if request.render:
            self.render()
        self.num_envs = checked_request(request).num_envs
        self.single_observation_space = observation_space
        self.single_action_space = action_space
        self.observation_space = batch_space(observation_space, self.num_envs)
        self.action_space = batch_space(action_space, self.num_envs)
        self._episodes = Episodes(request, count=draws)
        self._all = np.arange(self.num_envs)

    @property
    def episode_numbers(self) -> Array:
        """The current episode of each environment; -1 before the first reset."""
        return self._episodes.numbers.copy()

    def render(self) -> NoReturn:
        """Not offered."""
        refuse_picture()


class BaseRLEnv(SeededEnv, abc.ABC):
    """Many environments stepped together, with SAME_STEP autoreset, seeded episodes, and a state that can be saved.

    A subclass holds arrays with one row per environment and writes:

    - `begin(rows, draws)`: puts these environments at the start of an episode;
    - `advance(actions)`: one step of all, giving rewards, terminated, truncated and infos;
    - `observe(rows)`: a new array of what these environments show;
    - `arrays()`: the arrays that are its whole state, by name; they are saved and restored in place.

    All randomness comes from `draws`: numbers in [0, 1) that depend on seed, environment and episode alone, so that an
    environment is the same alone and among thousands. `episode_numbers` has the current episode of each environment, -1
    before the first reset; `render` is not offered.

    Args:
        request: How many, with which seed.
        observation_space: Of one environment.
        action_space: Of one environment.
        draws: Random numbers that an episode starts from.
    """

    @abc.abstractmethod
    def begin(self, rows: Array, draws: Array) -> None:
        """Puts these environments at the start of an episode, from its random numbers (len(rows), draws)."""

    @abc.abstractmethod
    def advance(self, actions: Array) -> tuple[Array, Array, Array, dict[str, Any]]:
        """One step of all: rewards float64, terminated and truncated (never both), and infos, all new arrays."""

    @abc.abstractmethod
    def observe(self, rows: Array) -> Array:
        """What these environments show, as a new array."""

    @abc.abstractmethod
    def arrays(self) -> dict[str, Array]:
        """The arrays that are the whole state, by name."""

    def reset(self, *, seed: int | None = None, options: JsonObject | None = None) -> tuple[Array, dict[str, Any]]:
        """Starts each environment's next episode; a seed replaces the request's and starts again from episode 0."""
        refuse_options(options)
        self.begin(self._all, self._episodes.restart(seed))
        return self.observe(self._all), {}

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        """One step of all; ended episodes are followed at once by their next."""
        if self._episodes.numbers[0] < 0:
            raise ResetNeeded("Cannot call step() before calling reset()")
        rewards, terminated, truncated, infos = self.advance(actions)
        observations = self.observe(self._all)
        ended = terminated | truncated
        if np.count_nonzero(ended):
            rows = np.flatnonzero(ended)
            infos["final_obs"], infos["_final_obs"] = np.zeros_like(observations), ended
            infos["final_obs"][rows] = observations[rows]
            self.begin(rows, self._episodes.advance(rows))
            observations[rows] = self.observe(rows)
        return observations, rewards, terminated, truncated, infos

    def identity(self) -> JsonObject:
        """What a state of another environment would differ in, as plain data: it is refused then."""
        return {}

    def get_state(self) -> State:
        """Everything: the arrays, episode numbers and seed."""
        episodes = self._episodes.state()
        arrays = {name: array.copy() for name, array in self.arrays().items()}
        return State({**arrays, **episodes.arrays}, {**episodes.data, "identity": self.identity()})

    def set_state(self, state: State) -> None:
        """Continues from there, bit for bit."""
        check_identity(state, self.identity())
        own = self.arrays()
        found = {name: matching(state, name, array) for name, array in own.items()}
        self._episodes.set_state(state)
        for name, array in own.items():
            array[...] = found[name]


class WatchedEnv(VectorEnv[Any, Any, Any]):
    """An environment seen through somebody who watches it: overrides `reset` or `step`, and passes all else through.

    Args:
        env: The environment to watch.
    """

    def __init__(self, env: AnyVectorEnv) -> None:
        self.env = env
        self.num_envs = env.num_envs
        self.metadata = env.metadata
        self.render_mode = env.render_mode
        self.spec = env.spec
        self.single_observation_space = env.single_observation_space
        self.single_action_space = env.single_action_space
        self.observation_space = env.observation_space
        self.action_space = env.action_space

    @property
    def unwrapped(self) -> AnyVectorEnv:
        """The environment inside all wrappers."""
        inner: AnyVectorEnv = self.env.unwrapped
        return inner

    def render(self) -> Any:
        """The pictures of the environment inside."""
        return self.env.render()

    def close(self, **kwargs: object) -> None:
        """Closes the environment."""
        self.env.close(**kwargs)

    def __getattr__(self, name: str) -> Any:
        # Whatever else an environment offers (action_masks, get_state's inner parts) stays reachable.
        if name.startswith("__") or name == "env":
            raise AttributeError(name)
        return getattr(self.env, name)

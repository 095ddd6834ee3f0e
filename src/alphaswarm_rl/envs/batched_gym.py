"""Gymnasium environments stepped together in one process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, iterate

from alphaswarm_rl.core.contracts import EnvRequest, State
from alphaswarm_rl.core.errors import EnvError
from alphaswarm_rl.core.types import AnySpace, Array, BackendArray, JsonObject
from alphaswarm_rl.envs.episodes import Episodes, checked_request
from alphaswarm_rl.envs.gym_ids import picture

AnyEnv = gymnasium.Env[Any, Any]
#: Observations of all environments: an array, or one per key.
_Observations: TypeAlias = "Array | dict[str, Array]"

_ARRAY_SPACES = (Box, Discrete, MultiDiscrete, MultiBinary)


class BatchedGym(VectorEnv[Any, Any, Array]):
    """A list of environments as one, with SAME_STEP autoreset and a seed of its own for every episode.

    Every array is new on every step, and observations are copied into it. At an episode's end `infos` has `final_obs`
    (only the rows in the mask `_final_obs` mean anything). What the environments say in their own infos is handed on
    as it is: `env_infos` is the tuple of all of them where any is not empty, and `final_infos` those of the last steps
    of episodes that ended.

    It offers no `get_state`: only its episode numbers can be carried on, and a resumed run begins fresh episodes.

    Args:
        envs: The environments, already made.
        request: How they are wanted.
        flatten: Whether each observation is laid out in one dimension.
    """

    def __init__(self, envs: Sequence[AnyEnv], request: EnvRequest, *, flatten: bool = False) -> None:
        first = envs[0]
        self.envs = tuple(envs)
        self.num_envs = checked_request(request).num_envs
        self.spec = first.spec
        self.render_mode = first.render_mode
        self.metadata = {**first.metadata, "autoreset_mode": AutoresetMode.SAME_STEP}
        self._blank, self._put = _writer(first.observation_space, len(self.envs), _name(first))
        self._flatten = flatten
        self.single_observation_space = _flat(first.observation_space) if flatten else first.observation_space
        self.single_action_space = first.action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._plain_actions = isinstance(self.single_action_space, _ARRAY_SPACES)
        self._steps = tuple(env.step for env in self.envs)
        self._episodes = Episodes(request, count=1)
        if first.has_wrapper_attr("action_masks"):
            # An attribute of those alone that have masks, so that hasattr tells the truth.
            self.action_masks = self._action_masks

    @property
    def episode_numbers(self) -> Array:
        """The current episode of each environment."""
        return self._episodes.numbers.copy()

    def reset(self, *, seed: int | None = None, options: JsonObject | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts each environment's next episode; a seed replaces the request's and starts again from episode 0."""
        observations, env_infos = self._blank(), []
        for row, (env, env_seed) in enumerate(zip(self.envs, _seeds(self._episodes.restart(seed)), strict=True)):
            observation, info = env.reset(seed=env_seed, options=options)
            self._put(observations, row, observation)
            env_infos.append(info)
        return self._shaped(observations), {"env_infos": tuple(env_infos)} if any(env_infos) else {}

    def step(self, actions: BackendArray) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        """Steps every environment; ended episodes are followed at once by their next."""
        if self._episodes.numbers[0] < 0:
            raise ResetNeeded("Cannot call step() before calling reset()")
        put, num_envs = self._put, self.num_envs
        observations = self._blank()
        rewards = np.empty(num_envs)
        terminated = np.zeros(num_envs, np.bool_)
        truncated = np.zeros(num_envs, np.bool_)
        env_infos: list[dict[str, Any]] = []
        ended: list[int] = []
        each: Iterable[Any] = actions if self._plain_actions else iterate(self.action_space, actions)
        for row, (step, action) in enumerate(zip(self._steps, each, strict=True)):
            observation, rewards[row], is_terminated, is_truncated, info = step(action)
            put(observations, row, observation)
            env_infos.append(info)
            if is_terminated:
                # An environment may set both flags. A state that is final has no value after it, whether or not time
                # was up too, so that `truncated`, which asks for a bootstrap, is left clear.
                terminated[row] = True
                ended.append(row)
            elif is_truncated:
                truncated[row] = True
                ended.append(row)
        infos = self._start_next(ended, observations, env_infos) if ended else {}
        if any(env_infos):
            infos["env_infos"] = tuple(env_infos)
        return self._shaped(observations), rewards, terminated, truncated, infos

    def render(self) -> tuple[Any, ...]:
        """The picture of the first environment."""
        if self.render_mode != "rgb_array":
            raise EnvError(
                "the picture", "the environment was not built to draw", "Ask for rendering when it is built."
            )
        return (picture(self.envs[0]),)

    def close_extras(self, **kwargs: object) -> None:
        """Closes every environment."""
        for env in self.envs:
            env.close()  # type: ignore[no-untyped-call]

    def episode_state(self) -> State:
        """The seed and the episode numbers; not what happens inside the episodes."""
        return self._episodes.state()

    def set_episode_state(self, state: State) -> None:
        """Carries the numbering on: the next reset begins episode number + 1 of each environment."""
        self._episodes.set_state(state)

    def _action_masks(self) -> Array:
        """Which actions are allowed now, of shape (num_envs, number of actions)."""
        return np.stack([np.asarray(env.get_wrapper_attr("action_masks")(), np.bool_) for env in self.envs])

    def _start_next(self, ended: list[int], observations: _Observations, env_infos: list[JsonObject]) -> dict[str, Any]:
        """Resets the ended environments, and moves what their last step said into the infos."""
        rows = np.array(ended)
        mask = np.zeros(self.num_envs, np.bool_)
        mask[rows] = True
        infos: dict[str, Any] = {"final_obs": self._shaped(_copy(observations)), "_final_obs": mask}
        final_infos: list[dict[str, Any]] = [{} for _ in self.envs]
        for row, seed in zip(ended, _seeds(self._episodes.advance(rows)), strict=True):
            final_infos[row] = env_infos[row]
            observation, env_infos[row] = self.envs[row].reset(seed=seed)
            self._put(observations, row, observation)
        if any(final_infos):
            infos["final_infos"] = tuple(final_infos)
        return infos

    def _shaped(self, observations: _Observations) -> _Observations:
        if isinstance(observations, dict) or not self._flatten:
            return observations
        return observations.reshape(self.num_envs, -1)


def _seeds(numbers: Array) -> list[int]:
    """32-bit seeds from one uniform number each."""
    seeds: list[int] = (numbers[:, 0] * 2.0**32).astype(np.int64).tolist()
    return seeds


def _writer(space: AnySpace, num_envs: int, name: str) -> tuple[Callable[[], Any], Callable[[Any, int, Any], None]]:
    """How a new batch of observations is made, and how one observation is copied into a row of it."""
    if isinstance(space, _ARRAY_SPACES):
        shape, dtype = (num_envs, *(space.shape or ())), space.dtype

        def blank() -> Array:
            return np.empty(shape, dtype)

        return blank, _put_array
    if isinstance(space, Dict) and all(isinstance(part, _ARRAY_SPACES) for part in space.values()):
        layout = {key: ((num_envs, *(part.shape or ())), part.dtype) for key, part in space.items()}

        def blank_dict() -> dict[str, Array]:
            return {key: np.empty(shape, dtype) for key, (shape, dtype) in layout.items()}

        return blank_dict, _put_dict
    raise EnvError(
        f"the observations of {name}",
        f"{space} is none of Box, Discrete, MultiDiscrete, MultiBinary or one Dict of those",
        "Wrap the environment so that it gives one of them, and register it under an id of its own.",
    )


def _put_array(batch: Array, row: int, observation: BackendArray) -> None:
    batch[row] = observation


def _put_dict(batch: dict[str, Array], row: int, observation: Mapping[str, BackendArray]) -> None:
    for key, array in batch.items():
        array[row] = observation[key]


def _copy(batch: _Observations) -> _Observations:
    return {key: array.copy() for key, array in batch.items()} if isinstance(batch, dict) else batch.copy()


def _flat(space: AnySpace) -> Box:
    assert isinstance(space, Box)
    return Box(space.low.reshape(-1), space.high.reshape(-1), dtype=space.low.dtype.type)


def _name(env: AnyEnv) -> str:
    return env.spec.id if env.spec is not None else type(env.unwrapped).__name__

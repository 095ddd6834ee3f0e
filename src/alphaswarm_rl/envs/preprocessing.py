"""A batched environment whose observations are stacked, normalised and clipped."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Discrete
from gymnasium.vector import VectorWrapper
from gymnasium.vector.utils import batch_space

from alphaswarm_rl.core.contracts import AnyVectorEnv, State
from alphaswarm_rl.core.errors import EnvError
from alphaswarm_rl.core.seeding import derived_seed
from alphaswarm_rl.core.types import Array, BackendArray, JsonObject
from alphaswarm_rl.envs.base import WatchedEnv
from alphaswarm_rl.envs.observation_transform import ObservationSettings, ObservationTransform

#: What the environment inside answers, where it answers at all.
_DELEGATED = frozenset({"episode_numbers", "episode_state", "set_episode_state", "action_masks"})
_INNER = "inner/"


class PreprocessedEnv(VectorWrapper):
    """An environment seen through an `ObservationTransform`.

    `final_obs` goes through the same transform as every observation: its stack continues the episode that ended, and
    it is normalised by the same statistics, which do not take it in.

    Args:
        env: The environment inside.
        settings: How observations are prepared.
        training: Whether running statistics learn.
    """

    def __init__(self, env: AnyVectorEnv, settings: ObservationSettings, *, training: bool = True) -> None:
        super().__init__(env)
        self.training = training
        self.transform = ObservationTransform(env.single_observation_space, settings)
        self.single_observation_space = self.transform.space
        self.observation_space = batch_space(self.transform.space, env.num_envs)

    def __getattr__(self, name: str) -> Any:
        # Only what is named here, so that hasattr answers for the environment inside.
        if name in _DELEGATED:
            return getattr(self.env, name)
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    @property
    def stacked_frames(self) -> int | None:
        """How many frames follow each other in a flat observation, the oldest first; None where there is but one."""
        return self.transform.stacked_frames

    @property
    def inner_stateful(self) -> bool:
        """Whether the environment inside can say its whole state, so that `get_state` is the whole state too."""
        return hasattr(self.env, "get_state")

    def reset(
        self, *, seed: int | list[int] | None = None, options: JsonObject | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Starts new episodes: every stack is full of its first frame."""
        observations, infos = self.env.reset(seed=seed, options=options)  # type: ignore[arg-type]
        self.transform.forget_frames()
        everyone = np.ones(self.num_envs, np.bool_)
        return self.transform.apply(observations, everyone, learn=self._learns), infos

    def step(self, actions: BackendArray) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Steps the environment inside."""
        observations, rewards, terminated, truncated, infos = self.env.step(actions)
        mask = infos.get("_final_obs")
        if mask is None:
            stacks = self.transform.push(observations, np.zeros(self.num_envs, np.bool_))
            return self.transform.finish(stacks, learn=self._learns), rewards, terminated, truncated, infos
        # The last frames first: pushing the new episodes' first ones overwrites the stacks.
        rows = np.flatnonzero(mask)
        last = self.transform.last(infos["final_obs"], rows)
        observations = self.transform.finish(self.transform.push(observations, mask), learn=self._learns)
        final = _spread(self.transform.finish(last), rows, self.num_envs)
        return observations, rewards, terminated, truncated, {**infos, "final_obs": final}

    def fit(self, env: AnyVectorEnv, *, seed: int, steps: int = 1000) -> None:
        """Takes `fixed` statistics from a warm-up with random actions.

        Args:
            env: An environment like the one inside, raw, and not the same: its episodes are used up.
            seed: Seed of the actions.
            steps: Steps of the whole batch.
        """
        if self.transform.settings.normalize != "fixed" or self.transform.ready:
            why = "there is nothing to fit: either it is not asked for, or the statistics are there and stay"
            raise EnvError(f"obs.normalize: {self.transform.settings.normalize}", why, "Fit once, before training.")
        warm_up = ObservationTransform(env.single_observation_space, self.transform.settings)
        env.action_space.seed(derived_seed(seed, "obs.fit"))
        observations, _ = env.reset()
        warm_up.apply(observations, np.ones(env.num_envs, np.bool_), learn=True)
        for _ in range(steps):
            observations, _, terminated, truncated, _ = env.step(_random_actions(env))
            warm_up.apply(observations, terminated | truncated, learn=True)
        self.transform.load_statistics(State(warm_up.statistics().arrays, {"ready": True}))

    def statistics(self) -> State:
        """The statistics, for an evaluation environment or a policy that is served."""
        return self.transform.statistics()

    def load_statistics(self, state: State) -> None:
        """Takes statistics over from another."""
        self.transform.load_statistics(state)

    def get_state(self) -> State:
        """Statistics, stacks, and the state of the environment inside where it can say it."""
        own = self.transform.get_state()
        if not self.inner_stateful:
            return own
        inner: State = self.env.get_state()  # type: ignore[attr-defined]
        arrays = {**own.arrays, **{_INNER + name: array for name, array in inner.arrays.items()}}
        return State(arrays=arrays, data={**own.data, "inner": inner.data})

    def set_state(self, state: State) -> None:
        """Continues from there, bit for bit where the environment inside can."""
        if self.inner_stateful:
            arrays = {name.removeprefix(_INNER): a for name, a in state.arrays.items() if name.startswith(_INNER)}
            self.env.set_state(State(arrays=arrays, data=state.data["inner"]))  # type: ignore[attr-defined]
        self.transform.set_state(state)

    @property
    def _learns(self) -> bool:
        return self.training and self.transform.settings.normalize == "running"


def raw_env(env: AnyVectorEnv) -> AnyVectorEnv:
    """The environment as it is before anybody watches it and before preprocessing."""
    while isinstance(env, WatchedEnv | PreprocessedEnv):
        env = env.env
    return env


def _spread(parts: Array | dict[str, Array], rows: Array, num_envs: int) -> Any:
    """Rows in their places of a whole batch, zero elsewhere."""
    if isinstance(parts, dict):
        return {name: _spread(part, rows, num_envs) for name, part in parts.items()}
    batch = np.zeros((num_envs, *parts.shape[1:]), parts.dtype)
    batch[rows] = parts
    return batch


def _random_actions(env: AnyVectorEnv) -> Any:
    if not hasattr(env, "action_masks"):
        return env.action_space.sample()
    if not isinstance(env.single_action_space, Discrete):
        raise EnvError(
            "obs.normalize: fixed",
            f"its warm-up cannot choose among masked actions of {env.single_action_space}",
            "Write obs.normalize: running.",
        )
    return env.action_space.sample(mask=tuple(env.action_masks().astype(np.int8)))

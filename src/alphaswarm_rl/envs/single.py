"""One environment as a plain `gymnasium.Env`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np

from alphaswarm_rl.core.contracts import AnyVectorEnv
from alphaswarm_rl.core.errors import EnvError
from alphaswarm_rl.core.types import AnyObservation, BackendArray, JsonMapping, JsonObject


class SingleEnv(gymnasium.Env[Any, Any]):
    """A batched environment of one, seen through Gymnasium's interface for one.

    The batched environment starts its next episode by itself; `reset()` after an end shows that one.

    Args:
        env: A batched environment with `num_envs=1`.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012  (Gymnasium says so)

    def __init__(self, env: AnyVectorEnv) -> None:
        if env.num_envs != 1:
            raise EnvError(f"a batch of {env.num_envs}", "the view of one needs a batch of one", "Use num_envs=1.")
        self.batched = env
        self.observation_space = env.single_observation_space
        self.action_space = env.single_action_space
        self._waiting: Any = None

    def reset(self, *, seed: int | None = None, options: JsonObject | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts an episode; a seed starts again from episode 0."""
        super().reset(seed=seed)
        if self._waiting is not None and seed is None and not options:
            observation, self._waiting = self._waiting, None
            return observation, {}
        self._waiting = None
        observation, infos = self.batched.reset(seed=seed, options=options)
        return _first(observation), _one(infos)

    def step(self, action: BackendArray | int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One step; at an episode's end the observation is its last."""
        if self._waiting is not None:
            raise gymnasium.error.ResetNeeded("The episode is over: call reset() first")
        observation, rewards, terminated, truncated, infos = self.batched.step(np.asarray(action)[None])
        if terminated[0] or truncated[0]:
            self._waiting = _first(observation)
            observation = infos.pop("final_obs")
        infos.pop("_final_obs", None)
        return _first(observation), float(rewards[0]), bool(terminated[0]), bool(truncated[0]), _one(infos)

    def action_masks(self) -> Any:
        """The legal actions, where the environment masks any."""
        return self.batched.action_masks()[0]  # type: ignore[attr-defined]

    def close(self) -> None:
        """Closes the batched environment."""
        self.batched.close()


def _first(observation: AnyObservation) -> Any:
    if isinstance(observation, Mapping):
        return {key: value[0] for key, value in observation.items()}
    return observation[0]


def _one(infos: JsonMapping) -> dict[str, Any]:
    """The only environment's values; masks say nothing about one."""
    return {
        key: _one(value) if isinstance(value, dict) else value[0]
        for key, value in infos.items()
        if not key.startswith("_")
    }

"""A Gymnasium vector environment as a Stable-Baselines3 `VecEnv`."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices

from alphaswarm_rl.core.errors import EnvError
from alphaswarm_rl.core.types import Array, Batch, JsonObject

if TYPE_CHECKING:
    from alphaswarm_rl.core.contracts import AgentRequest, AnyVectorEnv


def as_sb3(env: AnyVectorEnv) -> VecEnv:
    """The Stable-Baselines3 view of a batched environment with SAME_STEP autoreset."""
    if not isinstance(env, VectorEnv):
        raise EnvError(
            f"environment {env}",
            "it is no batched one",
            "Leave single=True out; Stable-Baselines3 takes a plain gymnasium.Env as it is.",
        )
    mode = getattr(env.unwrapped, "autoreset_mode", env.metadata.get("autoreset_mode"))
    if mode is not None and AutoresetMode(mode) is not AutoresetMode.SAME_STEP:
        raise EnvError(
            f"environment {env}",
            f"its autoreset mode is {AutoresetMode(mode).name}, and Stable-Baselines3 needs an episode's first "
            "observation in the step that ended the one before",
            "Build it with autoreset_mode=AutoresetMode.SAME_STEP.",
        )
    return BatchedVecEnv(env)


class SpacesVecEnv(VecEnv):
    """An environment that is never stepped: the spaces that a model is built for, and nothing else."""

    def __init__(self, request: AgentRequest) -> None:
        super().__init__(request.num_envs, deepcopy(request.observation_space), deepcopy(request.action_space))

    def _refuse(self, *args: object, **kwargs: object) -> NoReturn:
        raise EnvError(
            "an agent without an environment", "it only answers observations", "Build it with an environment."
        )

    reset = step_async = step_wait = set_attr = env_method = _refuse

    def close(self) -> None:
        """Does nothing: there is nothing to close."""

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """None, once per environment."""
        return [None] * self.num_envs

    def env_is_wrapped(self, wrapper_class: type, indices: VecEnvIndices = None) -> list[bool]:
        """False: nothing is wrapped here."""
        return [False] * self.num_envs


class BatchedVecEnv(VecEnv):
    """Hands a batch of steps through, with the `infos` that Stable-Baselines3 reads.

    Observations are not copied: an environment's arrays stay as they are once handed out. Gymnasium's own vector
    environments say by `copy=False` that theirs do not, and then they are.
    """

    def __init__(self, env: AnyVectorEnv) -> None:
        self._env = env
        self._copies = getattr(env.unwrapped, "copy", True) is False
        self._actions: Any = None
        # Stable-Baselines3 seeds and samples the action space it is given; the environment's own is left alone.
        super().__init__(env.num_envs, deepcopy(env.single_observation_space), deepcopy(env.single_action_space))
        self._returns = np.zeros(env.num_envs)
        self._lengths = np.zeros(env.num_envs, dtype=np.int64)
        self._quiet: list[dict[str, Any]] = [{} for _ in range(env.num_envs)]

    def reset(self) -> Batch:
        """Starts every environment anew, with the seed and the options given since the last reset."""
        observation, _ = self._env.reset(seed=self._seeds[0], options=self._options[0] or None)
        self._reset_seeds()
        self._reset_options()
        self._returns[:] = 0
        self._lengths[:] = 0
        return deepcopy(observation) if self._copies else observation

    def step_async(self, actions: Array) -> None:
        """Keeps the actions for `step_wait`."""
        self._actions = actions

    def step_wait(self) -> tuple[Batch, Array, Array, list[dict[str, Any]]]:
        """Steps all environments."""
        observation, rewards, terminated, truncated, infos = self._env.step(self._actions)
        dones = terminated | truncated
        self._returns += rewards
        self._lengths += 1
        # float32 as in SB3's own environments; and a copy, for SB3 adds the bootstrap value to it in place.
        rewards = rewards.astype(np.float32)
        if self._copies:
            observation = deepcopy(observation)
        # Nothing writes into the info of an environment that goes on, so the empty ones are used again.
        return observation, rewards, dones, self._ends(dones, terminated, infos) if dones.any() else self._quiet

    def _ends(self, dones: Array, terminated: Array, infos: JsonObject) -> list[dict[str, Any]]:
        ends = self._quiet.copy()
        final = infos["final_obs"]
        for i in np.flatnonzero(dones):
            # Gymnasium's own environments mix masks into the keys of a Dict: only the space knows the true ones.
            terminal = {key: final[key][i] for key in self.observation_space} if isinstance(final, dict) else final[i]
            ends[i] = {
                "terminal_observation": terminal,
                "TimeLimit.truncated": not terminated[i],
                "episode": {"r": float(self._returns[i]), "l": int(self._lengths[i]), "t": 0.0},
            }
        self._returns[dones] = 0
        self._lengths[dones] = 0
        return ends

    def close(self) -> None:
        """Closes the environment."""
        self._env.close()

    def get_images(self) -> Sequence[Array | None]:
        """One picture per environment."""
        return list(self._env.render() or ())

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """The batched environment's attribute, once per environment asked for."""
        value = getattr(self._env, attr_name)
        return [value for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: object, indices: VecEnvIndices = None) -> None:
        """Sets an attribute of the batched environment, which all of them share."""
        if indices is not None:
            raise EnvError(
                f"attribute {attr_name!r}",
                "the environments are one batch and share their attributes",
                "Leave indices out.",
            )
        setattr(self._env, attr_name, value)

    def env_method(
        self, method_name: str, *method_args: object, indices: VecEnvIndices = None, **method_kwargs: object
    ) -> list[Any]:
        """Calls a method of the batched environment, whose answer has one row per environment."""
        rows = getattr(self._env, method_name)(*method_args, **method_kwargs)
        return [rows[i] for i in self._get_indices(indices)]

    def env_is_wrapped(self, wrapper_class: type, indices: VecEnvIndices = None) -> list[bool]:
        """False: single environments are not wrapped here."""
        return [False for _ in self._get_indices(indices)]

"""A tiny batched environment of every kind, and hooks that remember what they heard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import Env, spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import batch_space

from alphaswarm_rl.core.contracts import AgentRequest, Learner, State
from alphaswarm_rl.core.refs import build_from_config

VECTOR = spaces.Box(-1, 1, (3,), np.float32)
IMAGE = spaces.Box(0, 255, (36, 36, 1), np.uint8)
DICT = spaces.Dict({"a": VECTOR, "b": spaces.Discrete(4)})
DISCRETE = spaces.Discrete(3)
CONTINUOUS = spaces.Box(-2, 2, (2,), np.float32)


class World(VectorEnv):
    """Random observations; the reward is better for small actions; episodes of 5 to 9 steps end either way."""

    def __init__(self, observation_space: Any = VECTOR, action_space: Any = DISCRETE, num_envs: int = 2, seed: int = 0):
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.render_mode = None
        self.num_envs = num_envs
        self.single_observation_space, self.single_action_space = observation_space, action_space
        self.observation_space = batch_space(observation_space, num_envs)
        self.action_space = batch_space(action_space, num_envs)
        self.rng = np.random.default_rng(seed)
        self.resets = 0
        self.actions: list[np.ndarray] = []

    def _observe(self, space: Any) -> Any:
        if isinstance(space, spaces.Dict):
            return {key: self._observe(part) for key, part in space.spaces.items()}
        shape = (self.num_envs, *space.shape)
        if isinstance(space, spaces.Discrete):
            return self.rng.integers(0, space.n, shape)
        if space.dtype == np.uint8:
            return self.rng.integers(0, 256, shape).astype(np.uint8)
        return self.rng.uniform(space.low, space.high, shape).astype(space.dtype)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.resets += 1
        self.left = self.rng.integers(5, 10, self.num_envs)
        return self._observe(self.single_observation_space), {}

    def step(self, actions: Any) -> Any:
        self.actions.append(np.array(actions))
        self.left -= 1
        done = self.left == 0
        truncated = done & (self.rng.random(self.num_envs) < 0.5)
        rewards = -np.abs(np.asarray(actions, np.float64)).reshape(self.num_envs, -1).mean(axis=1)
        infos = {}
        observation = self._observe(self.single_observation_space)
        if done.any():
            infos = {"final_obs": observation, "_final_obs": done}
            observation = self._observe(self.single_observation_space)
            self.left[done] = self.rng.integers(5, 10, done.sum())
        return observation, rewards, done & ~truncated, truncated, infos


class RestorableWorld(World):
    """A world that can say its state and be put back into it."""

    def get_state(self) -> State:
        return State({"left": self.left.copy()}, {"rng": self.rng.bit_generator.state})

    def set_state(self, state: State) -> None:
        self.left = state.arrays["left"].copy()
        self.rng.bit_generator.state = state.data["rng"]


class MaskedWorld(World):
    """Forbids one action in each environment at each step, and refuses it."""

    def action_masks(self) -> np.ndarray:
        return np.arange(3) != (self.left % 3)[:, None]

    def step(self, actions: Any) -> Any:
        assert self.action_masks()[np.arange(self.num_envs), actions].all()
        return super().step(actions)


class Hooks:
    """Remembers every boundary; halts when told to."""

    def __init__(self, halt: Callable[[], bool] = lambda: False, boundary: Callable[[], None] = lambda: None) -> None:
        self.asked = 0
        self.metrics: list[dict[str, float]] = []
        self._halt, self._boundary = halt, boundary
        self.decisions: list[tuple[Any, Any]] = []

    def should_halt(self) -> bool:
        self.asked += 1
        return self._halt()

    def boundary(self, metrics: Any) -> None:
        self.metrics.append(dict(metrics))
        self._boundary()

    def decided(self, values: Any, log_probs: Any) -> None:
        self.decisions.append((values, log_probs))


def sync(make: Callable[[], Env], num_envs: int, **kwargs: Any) -> SyncVectorEnv:
    """Gymnasium's own batch, in our autoreset mode."""
    return SyncVectorEnv([make] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP, **kwargs)


#: Small networks, short rollouts and small buffers for every algorithm, and a world that it fits.
_OFF = {"learning_starts": 8, "batch_size": 8, "buffer_size": 200, "net_arch": [8]}
SMALL: dict[str, dict[str, Any]] = {
    "ppo": {"n_steps": 16, "batch_size": 8, "n_epochs": 2, "net_arch": [8]},
    "a2c": {"net_arch": [8]},
    "trpo": {"n_steps": 16, "batch_size": 8, "net_arch": [8]},
    "recurrent_ppo": {"n_steps": 16, "batch_size": 8, "n_epochs": 1, "net_arch": [8], "lstm_hidden_size": 8},
    "maskable_ppo": {"n_steps": 16, "batch_size": 8, "n_epochs": 2, "net_arch": [8]},
    "dqn": _OFF | {"target_update_interval": 16},
    "qrdqn": _OFF | {"target_update_interval": 16, "n_quantiles": 8},
    "sac": _OFF,
    "td3": _OFF,
    "ddpg": _OFF,
    "tqc": _OFF | {"n_quantiles": 5},
    "ars": {"n_delta": 2, "net_arch": [8]},
}


def world_for(alias: str, observation_space: Any = VECTOR, **kwargs: Any) -> World:
    """A world that the algorithm can act in."""
    if alias == "maskable_ppo":
        return MaskedWorld(observation_space, DISCRETE, **kwargs)
    return World(observation_space, CONTINUOUS if alias in ("sac", "td3", "ddpg", "tqc") else DISCRETE, **kwargs)


def learner_for(alias: str, env: Any, seed: int = 0, **kwargs: Any) -> Learner:
    """A built learner, small unless told otherwise."""
    agent = build_from_config({"class": alias, "kwargs": SMALL.get(alias, {}) | kwargs}, kind="agent")
    return agent.build(AgentRequest.for_env(env, seed))


def trained(alias: str, steps: int = 100, seed: int = 0, hooks: Hooks | None = None, **kwargs: Any) -> Any:
    """A learner after some training in a fresh world."""
    env = world_for(alias)
    learner = learner_for(alias, env, seed, **kwargs)
    learner.train(env, steps, hooks or Hooks())
    return learner


def same_state(one: State, other: State) -> bool:
    """Whether two states are equal bit for bit."""
    return (
        one.data == other.data
        and one.arrays.keys() == other.arrays.keys()
        and all(np.array_equal(array, other.arrays[name]) for name, array in one.arrays.items())
    )

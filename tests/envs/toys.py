"""Small environments for the tests, registered under ids of their own."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from alphaswarm_rl.core.contracts import EnvRequest
from alphaswarm_rl.envs.gymnasium_env import GymnasiumEnv


class Toy(gymnasium.Env):
    """Counts its steps from a random start; one buffer serves all observations, as in careless environments."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}
    observation_space: Any = Box(-np.inf, np.inf, (3,), np.float32)
    action_space: Any = Discrete(3)
    length = 7

    def __init__(self, render_mode: str | None = None, *, both_flags: bool = False) -> None:
        self.render_mode = render_mode
        self.both_flags = both_flags
        self.buffer = np.zeros(3, np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.start = float(self.np_random.uniform())
        self.time = 0
        return self.observe(), {"start": self.start, "options": options} if options else {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.time += 1
        over = self.time >= self.length
        truncated = over and (self.both_flags or self.start > 0.5)
        terminated = over and (self.both_flags or not truncated)
        return self.observe(), float(self.time), terminated, truncated, {"time": self.time} if over else {}

    def observe(self) -> Any:
        self.buffer[:] = self.start, self.time, self.start * self.time
        return self.buffer


class DictToy(Toy):
    """Floats, an image and two discrete parts."""

    observation_space = Dict(
        {
            "vector": Box(-np.inf, np.inf, (3,), np.float32),
            "image": Box(0, 255, (6, 5, 3), np.uint8),
            "mode": Discrete(4),
            "pair": MultiDiscrete([10, 10]),
            "bits": MultiBinary(3),
        }
    )

    def observe(self) -> Any:
        return {
            "vector": super().observe(),
            "image": np.full((6, 5, 3), (self.time + int(self.start * 100)) % 256, np.uint8),
            "mode": self.time % 4,
            "pair": np.array([self.time % 10, 1]),
            "bits": np.array([1, 0, self.time % 2], np.int8),
        }


class ImageToy(Toy):
    """An image, channels last."""

    observation_space = Box(0, 255, (6, 5, 3), np.uint8)

    def observe(self) -> Any:
        return np.full((6, 5, 3), (self.time + int(self.start * 100)) % 256, np.uint8)


class ChannelFirstToy(ImageToy):
    """An image, channels first."""

    observation_space = Box(0, 255, (3, 6, 5), np.uint8)

    def observe(self) -> Any:
        return super().observe().transpose(2, 0, 1)


class DiscreteToy(Toy):
    """A number."""

    observation_space = Discrete(50)

    def observe(self) -> Any:
        return self.time


class TupleToy(Toy):
    """Something that cannot be batched."""

    observation_space = Tuple((Discrete(2), Discrete(2)))


class MaskedToy(Toy):
    """Forbids one action at each time, and says so."""

    def action_masks(self) -> np.ndarray:
        return np.arange(3) != self.time % 3

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_masks()[action]
        return super().step(action)


class ActsDictToy(Toy):
    """Takes a Dict of actions."""

    action_space = Dict({"move": Discrete(2), "by": Box(-1, 1, (2,), np.float32)})

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, _, terminated, truncated, info = super().step(action)
        return observation, float(action["move"] + action["by"].sum()), terminated, truncated, info


class FailingToy(Toy):
    """Raises on its third step."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self.time == 2:
            raise ZeroDivisionError("the toy broke")
        return super().step(action)


TOYS = {
    "Toy": Toy,
    "DictToy": DictToy,
    "ImageToy": ImageToy,
    "ChannelFirstToy": ChannelFirstToy,
    "DiscreteToy": DiscreteToy,
    "TupleToy": TupleToy,
    "MaskedToy": MaskedToy,
    "ActsDictToy": ActsDictToy,
    "FailingToy": FailingToy,
}
for _name, _class in TOYS.items():
    gymnasium.register(f"alphaswarm-test/{_name}-v0", entry_point=_class)


def component(env_id: str, **parameters: Any) -> GymnasiumEnv:
    """The component for an id; a toy's name alone will do."""
    env_id = f"alphaswarm-test/{env_id}-v0" if env_id in TOYS else env_id
    return GymnasiumEnv(GymnasiumEnv.Config(id=env_id, **parameters))


def build(
    env_id: str, num_envs: int = 2, seed: int = 0, *, request: dict[str, Any] | None = None, **kwargs: Any
) -> Any:
    """A batched environment by id."""
    return component(env_id, kwargs=kwargs).build(EnvRequest(num_envs=num_envs, seed=seed, **(request or {})))

"""The base of a task whose optimum is known: its dynamics, written once for NumPy and torch."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.kinds import EnvComponent

if TYPE_CHECKING:
    from gymnasium import Space
    from gymnasium.vector import VectorEnv

    from alphaswarm_rl.core.contracts import EnvRequest
    from alphaswarm_rl.envs.truth.solution import Solution

#: A random number of a step: in [0, 1), or of mean 0 and variance 1.
Noise = Literal["uniform", "normal"]
Arrays = dict[str, Any]


class TruthTask(abc.ABC):
    """Pure functions of arrays with one number per environment, (n,) float64; `xp` has NumPy's names.

    Whole actions come as they are, (n,) int64; others cut to [-1, 1], (n, k) float64.

    Args:
        name: What it is called in errors and in saved states.
        config: Its parameters.
        horizon: Steps of an episode, which is truncated then.
    """

    #: The random numbers that each step draws, and the beginning of an episode too.
    noise: ClassVar[tuple[Noise, ...]]
    #: Names of the observation's values.
    columns: ClassVar[tuple[str, ...]]

    def __init__(self, name: str, config: ComponentConfig, horizon: int) -> None:
        self.name = name
        self.config: Any = config
        self.horizon = horizon

    @abc.abstractmethod
    def action_space(self) -> Space[Any]:
        """The action space of one environment."""

    @abc.abstractmethod
    def begin(self, noise: Sequence[Any], xp: Any) -> Arrays:
        """The state as an episode begins."""

    @abc.abstractmethod
    def step(self, state: Mapping[str, Any], action: Any, noise: Sequence[Any], xp: Any) -> tuple[Arrays, Any, Any]:
        """The next state, the reward, and the cost that is in it; nothing is changed in place."""

    @abc.abstractmethod
    def observe(self, state: Mapping[str, Any]) -> tuple[Any, ...]:
        """What is seen of a state, in the order of `columns`."""

    @abc.abstractmethod
    def solution(self) -> Solution:
        """Its optimum."""

    def identity(self) -> dict[str, Any]:
        """What a state of another task would differ in."""
        return {"task": self.name, **self.config.model_dump(mode="json")}


class TruthComponent(EnvComponent):
    """The base of the environments with a known optimum."""

    rl_category = "truth"
    on_device = True

    @abc.abstractmethod
    def task(self) -> TruthTask:
        """The dynamics and the optimum."""

    def build(self, request: EnvRequest) -> VectorEnv[Any, Any, Any]:
        """The batched environment, on NumPy or on torch."""
        if request.backend == "torch":
            from alphaswarm_rl.envs.truth.env_torch import TorchTruthEnv

            return TorchTruthEnv(request, self.task())
        from alphaswarm_rl.envs.truth.env import TruthEnv

        return TruthEnv(request, self.task())

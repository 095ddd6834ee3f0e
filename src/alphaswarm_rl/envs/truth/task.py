"""Tasks whose optimum is known: the base of their environments, what is known of them, and what several share.

A task is a component: pure functions over arrays with one number per environment, (n,) float64, written once for NumPy
and torch (`xp` has NumPy's names). `env.TruthEnv` and `env_torch.TorchTruthEnv` step them.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

import numpy as np
from gymnasium.spaces import Discrete

from alphaswarm_rl.core.kinds import EnvComponent
from alphaswarm_rl.core.types import AnySpace, Array, BackendArray, JsonObject, NamedArrays

if TYPE_CHECKING:
    from alphaswarm_rl.core.contracts import AnyVectorEnv, EnvRequest
    from alphaswarm_rl.core.view import ArrayFunctions

#: A random number of a step: in [0, 1), or of mean 0 and variance 1.
Noise = Literal["uniform", "normal"]

#: The arrays of a task by name; the random numbers of a step; the next state, the reward and the cost that is in it.
TaskState: TypeAlias = Mapping[str, BackendArray]
Draws: TypeAlias = Sequence[BackendArray]
Result: TypeAlias = tuple[NamedArrays, BackendArray, BackendArray]

#: The positions that the actions 0, 1 and 2 stand for: short, flat, long.
POSITIONS = np.array([-1.0, 0.0, 1.0])
#: The action that is flat.
FLAT = 1


@dataclass(frozen=True)
class Solution:
    """The optimum of a task, and what a policy without any skill gets.

    J of a policy is the expected reward per step over an episode: what the environment pays, without discount. The
    optimal policy is the best one of those that do not look at the time: it maximises the mean reward of an endless
    episode, and its J is that of an episode of the task's length.

    Attributes:
        act: The optimal policy: observations (n, D) to actions, (n,) or (n, k).
        j_opt: Its J.
        j_base: J of the policy that counts as no skill.
        base: Which policy that is: the best one that always does the same, or the random one where the optimum itself
            always does the same.
        constant: The best action among those that are taken always.
        by_cost: Whether J is measured as minus the costs: where the gain's mean is known to be 0, it is noise alone.
    """

    act: Callable[[Array], Array]
    j_opt: float
    j_base: float
    base: Literal["constant", "random"]
    constant: Array
    by_cost: bool = False

    @property
    def optimum_is_constant(self) -> bool:
        """Whether the optimal policy always does the same."""
        return self.base == "random"


class TruthComponent(EnvComponent):
    """The base of the environments with a known optimum. Its Config has a `horizon`: episodes are truncated then.

    Whole actions come as they are, (n,) int64; others cut to [-1, 1], (n, k) float64.
    """

    rl_category = "truth"
    on_device = True
    #: The random numbers that each step draws, and the beginning of an episode too.
    noise: ClassVar[tuple[Noise, ...]]
    #: Names of the observation's values.
    columns: ClassVar[tuple[str, ...]]

    def flat_observations(self) -> bool:
        """It shows one row of numbers."""
        return True

    @abc.abstractmethod
    def action_space(self) -> AnySpace:
        """The action space of one environment."""

    @abc.abstractmethod
    def begin(self, noise: Draws, xp: ArrayFunctions) -> NamedArrays:
        """The state as an episode begins."""

    @abc.abstractmethod
    def step(self, state: TaskState, action: BackendArray, noise: Draws, xp: ArrayFunctions) -> Result:
        """The next state, the reward, and the cost that is in it; nothing is changed in place."""

    @abc.abstractmethod
    def observe(self, state: TaskState) -> tuple[BackendArray, ...]:
        """What is seen of a state, in the order of `columns`."""

    @abc.abstractmethod
    def solution(self) -> Solution:
        """Its optimum."""

    def identity(self) -> JsonObject:
        """What a saved state of another task would differ in."""
        return {"task": self.rl_alias, **self.config.model_dump(mode="json")}

    def build(self, request: EnvRequest) -> AnyVectorEnv:
        """The batched environment, on NumPy or on torch."""
        if request.backend == "torch":
            from alphaswarm_rl.envs.truth.env_torch import TorchTruthEnv

            return TorchTruthEnv(request, self)
        from alphaswarm_rl.envs.truth.env import TruthEnv

        return TruthEnv(request, self)


class PositionTask(TruthComponent):
    """The base of tasks in which one unit is held, long, flat or short; their Configs have a `cost` and a `carry`."""

    def action_space(self) -> AnySpace:
        """0 short, 1 flat, 2 long."""
        return Discrete(len(POSITIONS))

    def hold(
        self, position: BackendArray, action: BackendArray, gain: BackendArray, xp: ArrayFunctions
    ) -> tuple[BackendArray, BackendArray, BackendArray]:
        """The new position, the reward and the costs in it.

        Args:
            position: The old position, (n,) float64.
            action: What was chosen, (n,) int64.
            gain: What one unit earns.
            xp: Array functions.
        """
        target = xp.zeros_like(position) + (action - FLAT)
        costs = self.config.cost * xp.abs(target - position) + self.config.carry * xp.abs(target)
        return target, target * gain - costs, costs


def mean_reward(pays: Array, moves: Array, start: Array, horizon: int) -> float:
    """The expected reward per step of a Markov chain over an episode.

    Args:
        pays: Expected reward in each state, (S,).
        moves: Probabilities of moving from each state to each, (S, S).
        start: Probabilities of the states at the episode's beginning, (S,).
        horizon: Steps of the episode.
    """
    total, here = 0.0, start
    for _ in range(horizon):
        total += float(here @ pays)
        here = here @ moves
    return total / horizon

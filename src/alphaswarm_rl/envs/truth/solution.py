"""What is known of a task whose optimum is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Array = np.ndarray[Any, Any]


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

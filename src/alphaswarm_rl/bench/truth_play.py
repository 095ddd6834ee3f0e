"""Policies played on common random numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from gymnasium.spaces import Discrete

from alphaswarm_rl.core.contracts import EnvRequest
from alphaswarm_rl.core.kinds import EnvComponent
from alphaswarm_rl.core.types import AnySpace, Array

Act = Callable[[Array], Array]

#: A policy whose actions spread less than this cannot be told from one that always does the same.
CONSTANT_BELOW = 0.02


@dataclass(frozen=True)
class Played:
    """What a policy did.

    Attributes:
        returns: Sum of the rewards of each episode.
        costs: Sum of the costs in them; 0 where the environment tells none.
        lengths: Steps of each episode.
        spread: How much its actions differ from state to state, see `spread_of`.
    """

    returns: Array
    costs: Array
    lengths: Array
    spread: float


def play(component: EnvComponent, act: Act, *, seed: int, episodes: int) -> Played:
    """Plays the first episodes of an evaluation: the same ones for every policy with that seed.

    Args:
        component: The environment.
        act: The policy: a batch of observations to a batch of actions.
        seed: Seed of the episodes.
        episodes: How many.
    """
    env = component.build(EnvRequest(num_envs=episodes, seed=seed, phase="evaluate"))
    dtype = env.single_action_space.dtype
    returns, costs, lengths = np.zeros(episodes), np.zeros(episodes), np.zeros(episodes, np.int64)
    observations, _ = env.reset()
    playing = np.ones(episodes, dtype=bool)
    taken: list[Array] = []
    while playing.any():
        actions = np.asarray(act(observations)).astype(dtype)
        taken.append(actions[playing])
        observations, rewards, terminated, truncated, infos = env.step(actions)
        returns += np.where(playing, rewards, 0.0)
        costs += np.where(playing, infos.get("cost", 0.0), 0.0)
        lengths += playing
        playing &= ~(terminated | truncated)
    env.close()
    return Played(returns, costs, lengths, spread_of(np.concatenate(taken), env.single_action_space))


def spread_of(actions: Array, space: AnySpace) -> float:
    """How much actions differ: the share of those that are not the commonest one; of others the standard deviation.

    Args:
        actions: Actions that a deterministic policy took in the states it came to.
        space: The action space. In a Box from -1 to 1 it is the largest deviation of an entry.
    """
    if isinstance(space, Discrete):
        _, counts = np.unique(actions, return_counts=True)
        return 1.0 - float(counts.max()) / len(actions)
    return float(np.clip(actions.astype(np.float64), -1.0, 1.0).std(axis=0).max())

"""Recorded steps to learn from: transitions, and the base of pipelines that give them instead of bars."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.core.kinds import DataPipeline

if TYPE_CHECKING:
    from alphaswarm_rl.core.contracts import DataRequest

Array = np.ndarray[Any, Any]


class EpisodeKey(NamedTuple):
    """Which episode: its run, phase and environment, and its number there."""

    run_id: str
    phase: str
    env_idx: int
    episode: int


@dataclass(frozen=True, eq=False)
class Transitions:
    """N transitions (s, a, r, s'), those of an episode one after the other unless they were shuffled.

    Attributes:
        observation: What the agent saw, (N, D) float32.
        action: What it did, (N, K) float64; a discrete action is one number.
        reward: What it got for it, (N,) float64.
        next_observation: What it saw then, (N, D) float32; where the episode ended, its last sight.
        terminated: Whether the task ended there, (N,) bool: there is nothing to be had after it.
        truncated: Whether the episode was stopped there, (N,) bool.
        step: Number of the step in its episode, (N,) int64.
        episode: Index of its episode in `episodes`, (N,) int64.
        episodes: The episodes.
    """

    observation: Array
    action: Array
    reward: Array
    next_observation: Array
    terminated: Array
    truncated: Array
    step: Array
    episode: Array
    episodes: tuple[EpisodeKey, ...]

    def __len__(self) -> int:
        return len(self.reward)

    def take(self, rows: Array | slice) -> Transitions:
        """Those of these rows."""
        return Transitions(
            observation=self.observation[rows],
            action=self.action[rows],
            reward=self.reward[rows],
            next_observation=self.next_observation[rows],
            terminated=self.terminated[rows],
            truncated=self.truncated[rows],
            step=self.step[rows],
            episode=self.episode[rows],
            episodes=self.episodes,
        )

    def batches(self, size: int, seed: int | None = None) -> Iterator[Transitions]:
        """All of them once, `size` at a time; the last batch may be smaller.

        Args:
            size: Transitions in a batch.
            seed: Seed of their order; None: as they are.
        """
        if size < 1:
            raise DataError(f"batches of {size}", "a batch has at least one transition", "Give a larger size.")
        order = None if seed is None else np.random.default_rng(seed).permutation(len(self))
        for start in range(0, len(self), size):
            rows = slice(start, start + size)
            yield self.take(rows if order is None else order[rows])


class TransitionPipeline(DataPipeline):
    """A data pipeline that gives recorded transitions. It has no bars, so no environment can trade on it."""

    @abc.abstractmethod
    def transitions(self, request: DataRequest) -> Transitions:
        """All transitions that it is set to give."""

    def batches(self, request: DataRequest, size: int, seed: int | None = None) -> Iterator[Transitions]:
        """All transitions once, `size` at a time: shuffled by the seed, or in order."""
        return self.transitions(request).batches(size, seed)

    def build(self, request: DataRequest) -> NoReturn:
        """Refuses: there is no panel to be had."""
        raise DataError(
            f"the data pipeline {self.rl_alias!r}",
            "it gives recorded transitions to learn from, not bars to trade",
            "Call its transitions(request) or batches(request, size); for market data name another, such as iceberg.",
        )

"""Which episode and which step of it each recorded row is, and whether its episode is kept.

A row is one step of one environment. Arrays over rows are (n, S): environments, and steps of the batch.
"""

# Numba infers the types of jitted code.
# mypy: disable-error-code="no-untyped-def, untyped-decorator, misc"

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from alphaswarm_rl.arrays.jit import njit
from alphaswarm_rl.core.types import Array
from alphaswarm_rl.lake.hashing64 import mix

#: One in how many episodes is kept beyond `record.max_rows`.
SPARSE = 100


@dataclass(frozen=True)
class Sampling:
    """Which episodes are recorded.

    Attributes:
        first: The transition from which on not all are; those that begin earlier are recorded whole.
        every: One in how many is recorded from there on, chosen by a hash of environment and episode.
    """

    first: int
    every: int

    @classmethod
    def of(cls, train: str, max_rows: int) -> Sampling:
        """What `record.train` and `record.max_rows` mean."""
        return cls(max_rows, SPARSE) if train == "all" else cls(0, int(train.partition(":")[2]))


#: Every episode.
ALL = Sampling(2**62, 1)


class RowNumbers(NamedTuple):
    """The episode of each row, its step in it, and whether the row is kept; each (n, S)."""

    episodes: Array
    steps: Array
    kept: Array


class Numbering:
    """Counts episodes and steps of a batch of environments.

    Args:
        episodes: The current episode of each environment.
        steps: The next step of it.
        stride: From one episode of an environment to its next.
        sampling: Which episodes are kept.
        vector_steps: Steps of the whole batch so far.
    """

    def __init__(self, episodes: Array, steps: Array, *, stride: int, sampling: Sampling, vector_steps: int) -> None:
        self.episodes = np.array(episodes, np.int64)
        self.steps = np.array(steps, np.int64)
        self._stride = stride
        self._sampling = sampling
        self._vector_steps = vector_steps
        self._kept = np.empty(len(self.episodes), np.bool_)
        for index, begun in enumerate(vector_steps - self.steps):
            first, every = sampling.first, sampling.every
            self._kept[index] = _is_kept(index, self.episodes[index], begun * len(self._kept), first, every)

    def next_episodes(self) -> None:
        """Every environment was reset: episodes of which there are steps are left behind."""
        begun = self.steps > 0
        self.episodes[begun] += self._stride
        self.steps[:] = 0

    def take(self, ended: Array) -> RowNumbers:
        """Numbers the rows of the next steps.

        Args:
            ended: Whose episode ended at which step, (n, S).
        """
        episodes, steps = np.empty(ended.shape, np.int64), np.empty(ended.shape, np.int64)
        kept = np.empty(ended.shape, np.bool_)
        state = (self.episodes, self.steps, self._kept)
        chosen = (self._vector_steps, self._stride, self._sampling.first, self._sampling.every)
        _number(ended, *state, *chosen, episodes, steps, kept)
        self._vector_steps += ended.shape[1]
        return RowNumbers(episodes, steps, kept)


@njit(cache=True, nogil=True)
def _is_kept(env_idx, episode, begun, first, every):
    word = np.uint64(env_idx) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(episode)
    return begun < first or mix(mix(word)) % np.uint64(every) == 0


@njit(cache=True, nogil=True)
def _number(ended, episode, step, keeps, vector_steps, stride, first, every, episodes, steps, kept):
    envs, count = ended.shape
    for i in range(envs):
        for s in range(count):
            if step[i] == 0:
                keeps[i] = _is_kept(i, episode[i], (vector_steps + s) * envs, first, every)
            episodes[i, s], steps[i, s], kept[i, s] = episode[i], step[i], keeps[i]
            if ended[i, s]:
                episode[i] += stride
                step[i] = 0
            else:
                step[i] += 1

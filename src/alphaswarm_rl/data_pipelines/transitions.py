"""Transitions (s, a, r, s'), and how rows of the trajectories table become them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.core.types import Array

_KEY = ("run_id", "phase", "env_idx", "episode")

#: The columns that are needed.
COLUMNS = (*_KEY, "step", "action", "reward", "terminated", "truncated", "observation", "final_observation")


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
        arrays = (attribute.name for attribute in fields(self) if attribute.name != "episodes")
        return replace(self, **{name: getattr(self, name)[rows] for name in arrays})

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


def transitions_of(rows: pa.Table) -> Transitions:
    """The transitions of these rows, of which there is at least one; they may be in any order."""
    rows = rows.sort_by([(name, "ascending") for name in (*_KEY, "step")])
    begins = _begins(rows)
    firsts = rows.select(_KEY).filter(pa.array(begins)).to_pydict()
    episodes = tuple(EpisodeKey(*key) for key in zip(*firsts.values(), strict=True))
    episode, step = np.cumsum(begins) - 1, _numbers(rows, "step")
    # Whether the next row is of the same episode.
    goes_on = np.append(~begins[1:], False)
    gaps = np.flatnonzero(goes_on[:-1] & (np.diff(step) != 1))
    if len(gaps):
        row = gaps[0]
        raise DataError(
            f"{_named(episodes[episode[row]])}, step {step[row]}",
            f"the next row is of step {step[row + 1]}: rows are missing or there twice",
            "See what is wrong: rl lake verify.",
        )
    observation = _matrix(rows, "observation")
    terminated, truncated = (_numbers(rows, name) for name in ("terminated", "truncated"))
    ended = terminated | truncated
    seen_then = np.empty_like(observation)
    seen_then[:-1] = observation[1:]
    if ended.any():
        seen_then[ended] = _matrix(rows.filter(pa.array(ended)), "final_observation", width=observation.shape[1])
    action, reward = _matrix(rows, "action"), _numbers(rows, "reward")
    seen = (observation, action, reward, seen_then)
    every = Transitions(*seen, terminated, truncated, step, episode, episodes)
    return every.take(ended | goes_on)


def _begins(rows: pa.Table) -> Array:
    """Where a row is the first of its episode, in sorted rows."""
    begins = np.zeros(rows.num_rows, bool)
    begins[0] = True
    for name in _KEY:
        column = rows[name].combine_chunks()
        changed = pc.not_equal(column[1:], column[:-1])
        begins[1:] |= changed.to_numpy(zero_copy_only=False)
    return begins


def _numbers(rows: pa.Table, name: str) -> Array:
    _refuse_nulls(rows, name)
    numbers: Array = rows[name].to_numpy()
    return numbers


def _matrix(rows: pa.Table, name: str, width: int | None = None) -> Array:
    """A column of lists that are all of one length, (N, that length)."""
    _refuse_nulls(rows, name)
    lengths = pc.list_value_length(rows[name]).to_numpy()
    expected = lengths[0] if width is None else width
    other = np.flatnonzero(lengths != expected)
    if len(other):
        raise DataError(
            f"{_key_of(rows, int(other[0]))}, column {name!r}",
            f"it has {lengths[other[0]]} numbers where {expected} are expected",
            "Learn from runs of one environment at a time.",
        )
    numbers: Array = pc.list_flatten(rows[name]).to_numpy()
    return numbers.reshape(rows.num_rows, expected)


def _refuse_nulls(rows: pa.Table, name: str) -> None:
    if not rows[name].null_count:
        return
    row = int(np.flatnonzero(rows[name].is_null().to_numpy())[0])
    observations = name in ("observation", "final_observation")
    raise DataError(
        f"{_key_of(rows, row)}, column {name!r}",
        "it was not recorded" if observations else "it is empty",
        "Record the run with --record-observations (settings: record.observations), then learn from that run."
        if observations
        else "Leave the run out.",
    )


def _key_of(rows: pa.Table, row: int) -> str:
    values = rows.select([*_KEY, "step"]).slice(row, 1).to_pylist()[0]
    step = values.pop("step")
    return f"{_named(EpisodeKey(**values))}, step {step}"


def _named(key: EpisodeKey) -> str:
    return f"run {key.run_id}, {key.phase}, environment {key.env_idx}, episode {key.episode}"

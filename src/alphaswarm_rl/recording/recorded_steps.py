"""Steps of a run as they come, a block of them at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from alphaswarm_rl.lake.hashing64 import row_hashes, write_row_hashes

Array = np.ndarray[Any, Any]

#: What trading environments say of every step.
_ACCOUNT = ("timestamp", "portfolio_value", "drawdown", "cash")


class Column:
    """What each step brought of one thing, for all environments.

    Arrays are copied into one large array as they come: to hold thousands of small ones until a block is full would
    slow down the loop that makes them. Anything else is held as it is.

    Args:
        room: The most steps there may be.
    """

    __slots__ = ("_array", "_count", "_dtype", "_list", "_room")

    def __init__(self, room: int) -> None:
        self._room = room
        self._count = 0
        self._array: Array | None = None
        self._dtype: Any = None
        self._list: list[Any] = []

    @classmethod
    def of(cls, steps: list[Any] | Array) -> Column:
        """A column of these steps; nothing more is added to it."""
        column = cls(0)
        column._count = len(steps)
        if isinstance(steps, list):
            column._list = steps
        else:
            column._array = steps
        return column

    def __len__(self) -> int:
        return self._count

    def append(self, batch: Any) -> None:
        """The next step's."""
        array = self._array
        if array is not None and batch.dtype is self._dtype:
            array[self._count] = batch
        elif self._count == 0 and type(batch) is np.ndarray:
            self._array, self._dtype = np.empty((self._room, *batch.shape), batch.dtype), batch.dtype
            self._array[0] = batch
        else:
            if array is not None:  # they are not all of one kind
                self._list, self._array = list(array[: self._count]), None
            self._list.append(batch)
        self._count += 1

    def steps(self) -> list[Any] | Array:
        """Step after step."""
        return self._list if self._array is None else self._array[: self._count]

    def split(self, count: int) -> tuple[Column, Column]:
        """The first `count` steps and the others; nothing more is added to them."""
        return Column.of(self.steps()[:count]), Column.of(self.steps()[count:])

    def batched(self) -> Array:
        """Environment after environment on this side of the bus, (n, S, ...)."""
        if self._array is not None:
            return self._array[: self._count].swapaxes(0, 1)
        return batched(self._list)

    def flat(self) -> Array:
        """Batches of any numbers as (n, S, k)."""
        if self._array is not None:
            return self._array[: self._count].reshape(self._count, self._array.shape[1], -1).swapaxes(0, 1)
        return flat(self._list)


class Steps:
    """Steps of all environments, one after the other.

    Args:
        first: Steps of the batch that came before.
        room: The most steps there may be.

    Attributes:
        hashes: Of the observations, once they are known.
        infos: What environments say of each step, where it is needed as it is.
        account: What trading environments say of each step, by its name.
        terms: The parts of their rewards.
    """

    def __init__(self, first: int, room: int) -> None:
        self.first = first
        self._room = room
        self._trades = False
        self.actions = Column(room)
        self.rewards = Column(room)
        self.terminated = Column(room)
        self.truncated = Column(room)
        self.observations = Column(room)
        self.hashes = Column(room)
        self.values = Column(room)
        self.log_probs = Column(room)
        self.infos: list[Mapping[str, Any]] = []
        self.account: dict[str, Column] = {}
        self.terms: dict[str, Column] = {}

    def __len__(self) -> int:
        return len(self.rewards)

    def tell(self, infos: Mapping[str, Any], *, keep: bool) -> None:
        """What the environments say of the step; `keep` holds that of trading environments as it is, too."""
        if not self._trades and (self.rewards or "portfolio_value" not in infos):
            self.infos.append(infos)
            return
        self._trades = True
        for name in _ACCOUNT:
            if name in infos:
                _column(self.account, name, self._room).append(infos[name])
        for name, term in infos.get("reward_terms", {}).items():
            _column(self.terms, name, self._room).append(term)
        if keep:
            self.infos.append(infos)

    def hash_observations(self, *, keep: bool) -> None:
        """Computes the hashes that are not known yet, and lets the observations go unless they are kept."""
        if not self.hashes:
            self.hashes = Column.of(_hashes(list(self.observations.steps())))
        if not keep:
            self.observations = Column(0)

    def split(self, count: int) -> tuple[Steps, Steps]:
        """The first `count` steps, and the others."""
        before, after = Steps(self.first, 0), Steps(self.first + count, 0)
        for name, its in vars(self).items():
            if isinstance(its, Column):
                parts: Any = its.split(count)
            elif isinstance(its, list):
                parts = its[:count], its[count:]
            elif isinstance(its, dict):
                split = {key: column.split(count) for key, column in its.items()}
                parts = tuple({key: part[place] for key, part in split.items()} for place in (0, 1))
            else:
                continue
            setattr(before, name, parts[0])
            setattr(after, name, parts[1])
        return before, after


def _column(columns: dict[str, Column], name: str, room: int) -> Column:
    column = columns.get(name)
    if column is None:
        column = columns[name] = Column(room)
    return column


def batched(batches: Sequence[Any]) -> Array:
    """Environment after environment, (n, S, ...)."""
    joined = _joined(batches)
    return joined.reshape(len(batches), len(batches[0]), *joined.shape[1:]).swapaxes(0, 1)


def flat(batches: Sequence[Any]) -> Array:
    """Batches of any numbers as (n, S, k)."""
    parts = [batched(leaves) for leaves in zip(*map(_leaves, batches), strict=True)]
    parts = [part.reshape(*part.shape[:2], -1) for part in parts]
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=2)


def _joined(batches: Sequence[Any]) -> Array:
    """Step after step on this side of the bus, (S * n, ...)."""
    if hasattr(batches[0], "detach"):
        import torch

        together: Array = torch.cat(tuple(batches)).detach().cpu().numpy()
        return together
    return np.concatenate(batches)


def _leaves(batch: Any) -> list[Any]:
    if isinstance(batch, Mapping):
        return [leaf for name in sorted(batch) for leaf in _leaves(batch[name])]
    if isinstance(batch, tuple | list):
        return [leaf for part in batch for leaf in _leaves(part)]
    return [batch]


def are_here(observations: Any) -> bool:
    """Whether a batch of observations is on this side of the bus."""
    return not any(hasattr(leaf, "detach") for leaf in _leaves(observations))


def hashes_of(observations: Any) -> Array:
    """A hash of each observation of one batch, (n,)."""
    if type(observations) is np.ndarray:
        return row_hashes(observations)
    found: Array = _hashes([observations])[0]
    return found


def _hashes(observations: Sequence[Any]) -> Array:
    """A hash of each observation, (S, n): of its bytes, part after part in the order of their names."""
    parts = [_part_hashes(leaves) for leaves in zip(*map(_leaves, observations), strict=True)]
    if len(parts) == 1:
        return parts[0]
    return row_hashes(np.stack([part.reshape(-1) for part in parts], axis=1)).reshape(len(observations), -1)


def _part_hashes(batches: Sequence[Any]) -> Array:
    """(S, n)."""
    if hasattr(batches[0], "detach"):
        return row_hashes(_joined(batches)).reshape(len(batches), -1)
    # Batch by batch: putting them together first would copy what is by far the most.
    found = np.empty((len(batches), len(batches[0])), np.int64)
    for batch, out in zip(batches, found, strict=True):
        write_row_hashes(np.asarray(batch), out)
    return found

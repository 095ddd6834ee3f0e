"""Steps of a run as they come, a block of them at a time.

A step brings one batch of each thing (actions, rewards ...), with one entry per environment. A `Column` holds the
batches of one thing over the steps of a block, (S, n, ...), and gives them environment after environment, (n, S, ...),
as rows are made. A `StepBlock` holds all columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from alphaswarm_rl.core.types import Array, Batch, JsonMapping
from alphaswarm_rl.lake.hashing64 import row_hashes, write_row_hashes

#: What trading environments report of every step.
_ACCOUNT = ("timestamp", "portfolio_value", "drawdown", "cash")
#: What is kept beside it where trades are logged.
_TRADING_ACCOUNT = ("cost", "carry", "turnover")


class Column:
    """The batches of one thing, step after step.

    Arrays are copied into one large array as they come: to hold thousands of small ones until a block is full would
    slow down the loop that makes them. Anything else is held as it is.

    Args:
        capacity: The most steps it can hold.
    """

    __slots__ = ("_array", "_capacity", "_count", "_dtype", "_list")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._count = 0
        self._array: Array | None = None
        self._dtype: object = None
        self._list: list[Batch] = []

    @classmethod
    def of(cls, steps: list[Batch] | Array) -> Column:
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

    def append(self, batch: Batch) -> None:
        """Takes in the batch of the next step."""
        array = self._array
        if array is not None and batch.dtype is self._dtype:
            array[self._count] = batch
        elif self._count == 0 and type(batch) is np.ndarray:
            self._array, self._dtype = np.empty((self._capacity, *batch.shape), batch.dtype), batch.dtype
            self._array[0] = batch
        else:
            if array is not None:  # they are not all of one kind
                self._list, self._array = list(array[: self._count]), None
            self._list.append(batch)
        self._count += 1

    def steps(self) -> list[Batch] | Array:
        """Step after step."""
        return self._list if self._array is None else self._array[: self._count]

    def split(self, count: int) -> tuple[Column, Column]:
        """The first `count` steps and the others; nothing more is added to them."""
        return Column.of(self.steps()[:count]), Column.of(self.steps()[count:])

    def batched(self) -> Array:
        """Environment after environment in host memory, (n, S, ...)."""
        if self._array is not None:
            return self._array[: self._count].swapaxes(0, 1)
        return batched(self._list)

    def flat(self) -> Array:
        """Batches of any numbers as (n, S, k)."""
        if self._array is not None:
            return self._array[: self._count].reshape(self._count, self._array.shape[1], -1).swapaxes(0, 1)
        return flat(self._list)


class StepBlock:
    """Some steps of all environments, one after the other.

    Args:
        first: Steps of the batch that came before.
        capacity: The most steps it can hold.

    Attributes:
        hashes: Hashes of the observations, once they are computed.
        infos: The infos of each step; of trading environments only where they are kept as they are.
        account: What trading environments report of each step, by its name.
        reward_terms: The terms of their rewards, by their names.
        trades: What each step traded, by the names of a `TradeLog`, where that is logged.
    """

    def __init__(self, first: int, capacity: int) -> None:
        self.first = first
        self._capacity = capacity
        self._trading = False
        self.actions = Column(capacity)
        self.rewards = Column(capacity)
        self.terminated = Column(capacity)
        self.truncated = Column(capacity)
        self.observations = Column(capacity)
        self.hashes = Column(capacity)
        self.values = Column(capacity)
        self.log_probs = Column(capacity)
        self.infos: list[JsonMapping] = []
        self.account: dict[str, Column] = {}
        self.reward_terms: dict[str, Column] = {}
        self.trades: dict[str, Column] = {}

    def __len__(self) -> int:
        return len(self.rewards)

    def add_infos(self, infos: JsonMapping, *, keep: bool) -> None:
        """Takes in the infos of the next step; `keep` also holds those of trading environments as they are."""
        if not self._trading and (self.rewards or "portfolio_value" not in infos):
            self.infos.append(infos)
            return
        terms = infos.get("reward_terms", {})
        if not self._trading:
            self._begin_trading(infos)
        for name, column in self.account.items():
            if name in infos:
                column.append(infos[name])
        for name, column in self.reward_terms.items():
            column.append(terms[name])
        if self.trades:
            trades = infos["trades"]
            for name, column in self.trades.items():
                column.append(trades[name])
        if keep:
            self.infos.append(infos)

    def _begin_trading(self, infos: JsonMapping) -> None:
        """Makes the columns of what a trading environment reports: the same at every step."""
        self._trading = True
        logged = "trades" in infos
        account = [name for name in _ACCOUNT if name in infos] + list(_TRADING_ACCOUNT if logged else ())
        self.account = {name: Column(self._capacity) for name in account}
        self.reward_terms = {name: Column(self._capacity) for name in infos.get("reward_terms", {})}
        self.trades = {name: Column(self._capacity) for name in (infos["trades"] if logged else ())}

    def hash_observations(self, *, keep: bool) -> None:
        """Computes the hashes that are not known yet, and releases the observations unless they are kept."""
        if not self.hashes:
            self.hashes = Column.of(_hashes(list(self.observations.steps())))
        if not keep:
            self.observations = Column(0)

    def split(self, count: int) -> tuple[StepBlock, StepBlock]:
        """The first `count` steps, and the rest."""
        before, after = StepBlock(self.first, 0), StepBlock(self.first + count, 0)
        for name, value in vars(self).items():
            if isinstance(value, Column):
                parts: Sequence[object] = value.split(count)
            elif isinstance(value, list):
                parts = value[:count], value[count:]
            elif isinstance(value, dict):
                split = {key: column.split(count) for key, column in value.items()}
                parts = [{key: part[place] for key, part in split.items()} for place in (0, 1)]
            else:
                continue
            setattr(before, name, parts[0])
            setattr(after, name, parts[1])
        return before, after


def batched(batches: Sequence[Batch]) -> Array:
    """Environment after environment, (n, S, ...)."""
    joined = _joined(batches)
    return joined.reshape(len(batches), len(batches[0]), *joined.shape[1:]).swapaxes(0, 1)


def flat(batches: Sequence[Batch]) -> Array:
    """Batches of any numbers as (n, S, k)."""
    parts = [batched(leaves) for leaves in zip(*map(_leaves, batches), strict=True)]
    parts = [part.reshape(*part.shape[:2], -1) for part in parts]
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=2)


def _joined(batches: Sequence[Batch]) -> Array:
    """Step after step in host memory, (S * n, ...)."""
    if hasattr(batches[0], "detach"):
        import torch

        together: Array = torch.cat(tuple(batches)).detach().cpu().numpy()
        return together
    return np.concatenate(batches)


def _leaves(batch: Batch) -> list[Batch]:
    if isinstance(batch, Mapping):
        return [leaf for name in sorted(batch) for leaf in _leaves(batch[name])]
    if isinstance(batch, tuple | list):
        return [leaf for part in batch for leaf in _leaves(part)]
    return [batch]


def as_numpy(batch: Batch) -> Array:
    """A batch, or one of its entries, in host memory."""
    return batch.detach().cpu().numpy() if hasattr(batch, "detach") else np.asarray(batch)


def on_host(observations: Batch) -> bool:
    """Whether a batch of observations is in host memory, and not on a device."""
    return not any(hasattr(leaf, "detach") for leaf in _leaves(observations))


def observation_hashes(observations: Batch) -> Array:
    """A hash of each observation of one batch, (n,)."""
    if type(observations) is np.ndarray:
        return row_hashes(observations)
    found: Array = _hashes([observations])[0]
    return found


def _hashes(observations: Sequence[Batch]) -> Array:
    """A hash of each observation, (S, n): of its bytes, part after part in the order of their names."""
    parts = [_part_hashes(leaves) for leaves in zip(*map(_leaves, observations), strict=True)]
    if len(parts) == 1:
        return parts[0]
    return row_hashes(np.stack([part.reshape(-1) for part in parts], axis=1)).reshape(len(observations), -1)


def _part_hashes(batches: Sequence[Batch]) -> Array:
    """Hashes of one part of the observations, (S, n)."""
    if hasattr(batches[0], "detach"):
        return row_hashes(_joined(batches)).reshape(len(batches), -1)
    # Batch by batch: putting them together first would copy what is by far the most.
    found = np.empty((len(batches), len(batches[0])), np.int64)
    for batch, out in zip(batches, found, strict=True):
        write_row_hashes(np.asarray(batch), out)
    return found

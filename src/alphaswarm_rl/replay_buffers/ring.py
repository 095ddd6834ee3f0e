"""Rows in preallocated arrays; when all are used the oldest are written over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from alphaswarm_rl.core.contracts import ReplayField, State
from alphaswarm_rl.core.errors import CheckpointError
from alphaswarm_rl.replay_buffers.fields import checked_batch

Array = np.ndarray[Any, Any]


class Ring:
    """Named arrays of `capacity` rows each.

    Args:
        fields: Shape and type of a row, by name.
        capacity: How many rows are kept.
    """

    def __init__(self, fields: Mapping[str, ReplayField], capacity: int) -> None:
        self.fields = dict(fields)
        self.capacity = capacity
        self.size = 0
        self._next = 0
        self._rows = {name: np.zeros((capacity, *field.shape), field.dtype) for name, field in fields.items()}

    def write(self, rows: Mapping[str, Any]) -> Array:
        """Takes rows in, oldest first, and says where they are now; of more than `capacity` the last are kept."""
        arrays = checked_batch(rows, self.fields, (None,))
        count = len(next(iter(arrays.values())))
        kept = min(count, self.capacity)
        # As if all had been written one by one: those that are written over leave their places behind.
        start = (self._next + count - kept) % self.capacity
        first = min(kept, self.capacity - start)
        for name, array in arrays.items():
            self._rows[name][start : start + first] = array[count - kept : count - kept + first]
            self._rows[name][: kept - first] = array[count - kept + first :]
        self._next = (self._next + count) % self.capacity
        self.size = min(self.size + count, self.capacity)
        return (start + np.arange(kept)) % self.capacity

    def read(self, indices: Array) -> dict[str, Array]:
        """Copies of these rows."""
        return {name: rows[indices] for name, rows in self._rows.items()}

    def clear(self) -> None:
        """Forgets every row."""
        self.size = self._next = 0

    def get_state(self) -> State:
        """The rows that are there, and where the next goes."""
        arrays = {name: rows[: self.size].copy() for name, rows in self._rows.items()}
        return State(arrays, {"capacity": self.capacity, "next": self._next, "size": self.size})

    def set_state(self, state: State) -> None:
        """Continues from there."""
        data = state.data
        if data.get("capacity") != self.capacity:
            raise _unfit(f"it is of {data.get('capacity')} transitions, the buffer of {self.capacity}")
        for name, rows in self._rows.items():
            array = state.arrays.get(name)
            if array is None or array.shape != (data["size"], *rows.shape[1:]) or array.dtype != rows.dtype:
                raise _unfit(f"its {name!r} does not fit {rows.dtype} of shape {rows.shape[1:]}")
        self.size, self._next = data["size"], data["next"]
        for name, rows in self._rows.items():
            rows[: self.size] = state.arrays[name]


def _unfit(why: str) -> CheckpointError:
    return CheckpointError("the state of a replay buffer", why, "Load a checkpoint of the same agent and environment.")

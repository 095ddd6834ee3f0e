"""A replay buffer that draws every transition alike, and the ring of arrays that keeps the transitions.

Transitions are named arrays with one row each. Batches come in as (T, N, ...), T steps of N environments, or as rows
(K, ...); what is kept under a name has one shape and type, and anything else is refused.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from alphaswarm_rl.core import seeding
from alphaswarm_rl.core.contracts import ReplayBufferField, ReplayBufferRequest, ReplayBufferSample, State
from alphaswarm_rl.core.errors import CheckpointError, ComponentError
from alphaswarm_rl.core.generator_state import generator_state, set_generator_state
from alphaswarm_rl.core.types import Array


class UniformBuffer:
    """Transitions of all environments in one ring: step after step, and in each step environment after environment.

    Args:
        request: What is kept, of how many environments.
        capacity: How many transitions; rounded down to whole steps of all environments.
    """

    prioritized = False

    def __init__(self, request: ReplayBufferRequest, capacity: int) -> None:
        if capacity < request.num_envs:
            raise ComponentError(
                f"a replay buffer of {capacity} transitions",
                f"it has no room for one step of {request.num_envs} environments",
                "Raise its capacity, or lower training.n_envs.",
            )
        self._num_envs = request.num_envs
        self._ring = Ring(request.fields, capacity // request.num_envs * request.num_envs)
        self._generator = seeding.generator(request.seed, "replay")

    def __len__(self) -> int:
        """How many transitions it holds."""
        return self._ring.size

    @property
    def capacity(self) -> int:
        """How many transitions it can hold."""
        return self._ring.capacity

    def append(self, batch: Mapping[str, Array]) -> None:
        """Takes T steps of all environments in, arrays of shape (T, N, ...)."""
        arrays = checked_batch(batch, self._ring.fields, (None, self._num_envs))
        self.extend({name: array.reshape(-1, *array.shape[2:]) for name, array in arrays.items()})

    def extend(self, rows: Mapping[str, Array]) -> None:
        """Takes single transitions in, arrays of shape (K, ...), oldest first."""
        self._ring.write(rows)

    def sample(self, batch_size: int) -> ReplayBufferSample:
        """Draws transitions, each as likely as any other, with replacement."""
        self._refuse_empty()
        indices = self._generator.integers(0, len(self), batch_size)
        return ReplayBufferSample(self._ring.read(indices), indices, np.ones(batch_size))

    def update_priorities(self, indices: Array, errors: Array) -> None:
        """Nothing to do: there are no priorities."""

    def break_off(self) -> None:
        """Nothing to do: every transition stands for itself."""

    def clear(self) -> None:
        """Forgets every transition; what is drawn next goes on."""
        self._ring.clear()

    def get_state(self) -> State:
        """Every transition and the random generator."""
        ring = self._ring.get_state()
        return State(ring.prefixed("ring"), {"ring": ring.data, "generator": generator_state(self._generator)})

    def set_state(self, state: State) -> None:
        """Continues from there, bit for bit."""
        self._ring.set_state(state.part("ring"))
        set_generator_state(self._generator, state.data["generator"])

    def _refuse_empty(self) -> None:
        if not len(self):
            raise ComponentError("a replay buffer", "it is empty", "Append transitions before sampling.")


class Ring:
    """Named arrays of `capacity` rows each.

    Args:
        fields: Shape and type of a row, by name.
        capacity: How many rows are kept.
    """

    def __init__(self, fields: Mapping[str, ReplayBufferField], capacity: int) -> None:
        self.fields = dict(fields)
        self.capacity = capacity
        self.size = 0
        self._next = 0
        self._rows = {name: np.zeros((capacity, *field.shape), field.dtype) for name, field in fields.items()}

    def write(self, rows: Mapping[str, Array]) -> Array:
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
            raise _wrong_state(f"it is of {data.get('capacity')} transitions, the buffer of {self.capacity}")
        for name, rows in self._rows.items():
            array = state.arrays.get(name)
            if array is None or array.shape != (data["size"], *rows.shape[1:]) or array.dtype != rows.dtype:
                raise _wrong_state(f"its {name!r} does not fit {rows.dtype} of shape {rows.shape[1:]}")
        self.size, self._next = data["size"], data["next"]
        for name, rows in self._rows.items():
            rows[: self.size] = state.arrays[name]


def _wrong_state(why: str) -> CheckpointError:
    return CheckpointError("the state of a replay buffer", why, "Load a checkpoint of the same agent and environment.")


def checked_batch(
    batch: Mapping[str, Array], fields: Mapping[str, ReplayBufferField], leading: tuple[int | None, ...]
) -> dict[str, Array]:
    """The arrays of a batch, refused where a field is missing, unknown, of another shape or would lose its numbers.

    Args:
        batch: The arrays by field.
        fields: What is kept.
        leading: The dimensions before a field's own; None: any number, the same in all fields.
    """
    if batch.keys() != fields.keys():
        raise _wrong_field(", ".join(sorted(batch.keys() ^ fields.keys())), "only one of batch and buffer has it")
    arrays = {name: np.asarray(batch[name]) for name in fields}
    first = next(iter(arrays.values())).shape[: len(leading)]
    expected = tuple(size if size is not None else found for size, found in zip(leading, first, strict=False))
    for name, array in arrays.items():
        field = fields[name]
        if array.shape != (*expected, *field.shape) or len(expected) != len(leading):
            raise _wrong_field(name, f"its shape is {array.shape}, not {(*expected, *field.shape)}")
        # A float in an integer's place would be cut off silently.
        if not np.can_cast(array.dtype, np.dtype(field.dtype), "same_kind"):
            raise _wrong_field(name, f"it is of type {array.dtype}, and {np.dtype(field.dtype)} is kept")
    return arrays


def _wrong_field(name: str, why: str) -> ComponentError:
    return ComponentError(f"replay field {name!r}", why, "Hand in the fields that the buffer was built for.")

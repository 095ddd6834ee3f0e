"""A replay buffer that draws every transition alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from alphaswarm_rl.core import seeding
from alphaswarm_rl.core.contracts import ReplayRequest, ReplaySample, State
from alphaswarm_rl.core.errors import ComponentError
from alphaswarm_rl.core.generator_state import generator_state, set_generator_state
from alphaswarm_rl.replay_buffers.fields import checked_batch
from alphaswarm_rl.replay_buffers.ring import Ring

Array = np.ndarray[Any, Any]


class UniformReplay:
    """Transitions of all environments in one ring: step after step, and in each step environment after environment.

    Args:
        request: What is kept, of how many environments.
        capacity: How many transitions; rounded down to whole steps of all environments.
    """

    prioritized = False

    def __init__(self, request: ReplayRequest, capacity: int) -> None:
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

    def append(self, batch: Mapping[str, Any]) -> None:
        """Takes T steps of all environments in, arrays of shape (T, N, ...)."""
        arrays = checked_batch(batch, self._ring.fields, (None, self._num_envs))
        self.extend({name: array.reshape(-1, *array.shape[2:]) for name, array in arrays.items()})

    def extend(self, rows: Mapping[str, Any]) -> None:
        """Takes single transitions in, arrays of shape (K, ...), oldest first."""
        self._ring.write(rows)

    def sample(self, batch_size: int) -> ReplaySample:
        """Draws transitions, each as likely as any other, with replacement."""
        self._refuse_empty()
        indices = self._generator.integers(0, len(self), batch_size)
        return ReplaySample(self._ring.read(indices), indices, np.ones(batch_size))

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

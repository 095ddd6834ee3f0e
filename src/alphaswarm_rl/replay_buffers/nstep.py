"""A replay buffer of windows of several steps, kept by another buffer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

from alphaswarm_rl.core.contracts import Replay, ReplaySample, State
from alphaswarm_rl.core.errors import ComponentError
from alphaswarm_rl.replay_buffers.fields import checked_batch
from alphaswarm_rl.replay_buffers.windows import NStepWindows

Array = np.ndarray[Any, Any]


class NStepReplay:
    """Makes windows of the steps that come in, and hands complete ones to the storage that draws them.

    Args:
        windows: Makes the windows.
        storage: Keeps and draws them, by priority or not.
        num_envs: How many environments.
    """

    def __init__(self, windows: NStepWindows, storage: Replay, num_envs: int) -> None:
        self._windows = windows
        self._storage = storage
        self._num_envs = num_envs
        self.prioritized = storage.prioritized

    def __len__(self) -> int:
        """How many windows it holds."""
        return len(self._storage)

    def append(self, batch: Mapping[str, Any]) -> None:
        """Takes T steps of all environments in, arrays of shape (T, N, ...)."""
        arrays = checked_batch(batch, self._windows.step_fields, (None, self._num_envs))
        for t in range(len(arrays["reward"])):
            complete = self._windows.push({name: array[t] for name, array in arrays.items()})
            if len(complete["reward"]):
                self._storage.extend(complete)

    def extend(self, rows: Mapping[str, Any]) -> NoReturn:
        """Refused: windows are made of steps of all environments."""
        raise ComponentError(
            "a replay buffer of several steps", "single transitions belong to no environment", "Use append."
        )

    def sample(self, batch_size: int) -> ReplaySample:
        """Draws windows as the storage does."""
        return self._storage.sample(batch_size)

    def update_priorities(self, indices: Array, errors: Array) -> None:
        """Passed on to the storage."""
        self._storage.update_priorities(indices, errors)

    def break_off(self) -> None:
        """Drops the open windows: they would go on in other episodes."""
        self._windows.forget()

    def clear(self) -> None:
        """Forgets every window, complete or not."""
        self._windows.forget()
        self._storage.clear()

    def get_state(self) -> State:
        """The open windows and the storage."""
        windows, storage = self._windows.get_state(), self._storage.get_state()
        arrays = windows.prefixed("windows") | storage.prefixed("storage")
        return State(arrays, {"windows": windows.data, "storage": storage.data})

    def set_state(self, state: State) -> None:
        """Continues from there, bit for bit."""
        self._windows.set_state(state.part("windows"))
        self._storage.set_state(state.part("storage"))

"""A replay buffer of transitions over several steps: windows made of single steps, kept by another buffer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

import numpy as np

from alphaswarm_rl.core.contracts import BuiltReplayBuffer, ReplayBufferField, ReplayBufferSample, State
from alphaswarm_rl.core.errors import CheckpointError, ComponentError
from alphaswarm_rl.core.types import Array
from alphaswarm_rl.replay_buffers.uniform import checked_batch

#: What a window takes from its last step beside every field whose name begins with `next_`.
_OF_THE_LAST = ("terminated", "truncated")
_NEEDED = ("reward", *_OF_THE_LAST)
DISCOUNT = "discount"


class NStepBuffer:
    """Makes windows of the steps that come in, and hands complete ones to the storage that draws them.

    Args:
        windows: Makes the windows.
        storage: Keeps and draws them, by priority or not.
    """

    def __init__(self, windows: NStepWindows, storage: BuiltReplayBuffer) -> None:
        self._windows = windows
        self._storage = storage
        self.prioritized = storage.prioritized

    def __len__(self) -> int:
        """How many windows it holds."""
        return len(self._storage)

    def append(self, batch: Mapping[str, Array]) -> None:
        """Takes T steps of all environments in, arrays of shape (T, N, ...)."""
        arrays = checked_batch(batch, self._windows.step_fields, (None, self._windows.num_envs))
        for t in range(len(arrays["reward"])):
            complete = self._windows.push({name: array[t] for name, array in arrays.items()})
            if len(complete["reward"]):
                self._storage.extend(complete)

    def extend(self, rows: Mapping[str, Array]) -> NoReturn:
        """Refused: windows are made of steps of all environments."""
        raise ComponentError(
            "a replay buffer of several steps", "single transitions belong to no environment", "Use append."
        )

    def sample(self, batch_size: int) -> ReplayBufferSample:
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


class NStepWindows:
    """Sums up to `n_steps` steps of each environment into one transition; a window ends with its episode at the latest.

    A window has the discounted sum of its rewards; `terminated`, `truncated` and every `next_...` field of its last
    step; all other fields of its first step; and `discount`, gamma to the power of its length, which is what the value
    of its last observation counts (0 instead, if it terminated). It is complete after `n_steps` steps, or when its
    episode ends: then every open window of that environment is, the shortest of one step.

    Args:
        fields: What is handed in of each step; `reward`, `terminated` and `truncated` are needed.
        num_envs: How many environments.
        n_steps: Steps of a window.
        gamma: Discount of a reward one step later.
    """

    def __init__(self, fields: Mapping[str, ReplayBufferField], num_envs: int, n_steps: int, gamma: float) -> None:
        for name in _NEEDED:
            if name not in fields or fields[name].shape:
                raise ComponentError(
                    f"replay field {name!r}",
                    "windows of several steps need one such number per transition",
                    "Add it to the fields of the buffer.",
                )
        if DISCOUNT in fields:
            raise ComponentError(
                f"replay field {DISCOUNT!r}", "windows of several steps make it themselves", "Leave it out."
            )
        self.step_fields = dict(fields)
        self._n, self.num_envs = n_steps, num_envs
        self._powers = gamma ** np.arange(n_steps + 1)
        last = {name for name in fields if name in _OF_THE_LAST or name.startswith("next_")}
        self._last = sorted(last)
        # A row for each step, round and round, with the window that began there; it is gone when its row is due again.
        shape = (n_steps, num_envs)
        self._first = {
            name: np.zeros((*shape, *field.shape), field.dtype)
            for name, field in fields.items()
            if name not in last and name != "reward"
        }
        self._returns = np.zeros(shape)
        self._lengths = np.zeros(shape, np.int64)
        self._open = np.zeros(shape, np.bool_)
        self._row = 0

    @property
    def fields(self) -> dict[str, ReplayBufferField]:
        """What a window has."""
        return {**self.step_fields, DISCOUNT: ReplayBufferField(dtype=np.float64)}

    def push(self, step: Mapping[str, Array]) -> dict[str, Array]:
        """Takes one step of all environments in, arrays (N, ...); gives the windows that it completes, oldest first."""
        arrays = checked_batch(step, self.step_fields, (self.num_envs,))
        row = self._row
        for name, kept in self._first.items():
            kept[row] = arrays[name]
        self._returns[row] = 0.0
        self._lengths[row] = 0
        self._open[row] = True
        self._returns += np.where(self._open, self._powers[self._lengths], 0.0) * arrays["reward"]
        self._lengths += self._open
        self._row = (row + 1) % self._n

        ended = arrays["terminated"].astype(np.bool_) | arrays["truncated"].astype(np.bool_)
        complete = self._open & ((self._lengths == self._n) | ended)
        self._open &= ~complete
        oldest_first = (self._row + np.arange(self._n)) % self._n
        ages, envs = np.nonzero(complete[oldest_first])
        rows = oldest_first[ages]
        windows = {name: kept[rows, envs] for name, kept in self._first.items()}
        windows |= {name: arrays[name][envs] for name in self._last}
        windows["reward"] = self._returns[rows, envs]
        windows[DISCOUNT] = self._powers[self._lengths[rows, envs]]
        return windows

    def forget(self) -> None:
        """Drops every open window."""
        self._open[:] = False

    def get_state(self) -> State:
        """The open windows."""
        return State({name: kept.copy() for name, kept in self._own().items()}, {"row": self._row})

    def set_state(self, state: State) -> None:
        """Continues from there."""
        own = self._own()
        for name, kept in own.items():
            array = state.arrays.get(name)
            if array is None or array.shape != kept.shape or array.dtype != kept.dtype:
                raise CheckpointError(
                    "the open windows of a replay buffer",
                    f"their {name!r} does not fit {kept.dtype} of shape {kept.shape}",
                    "Load a checkpoint of the same agent and environment.",
                )
        for name, kept in own.items():
            kept[...] = state.arrays[name]
        self._row = int(state.data["row"])

    def _own(self) -> dict[str, Array]:
        first = {f"first/{name}": kept for name, kept in self._first.items()}
        return {**first, "returns": self._returns, "lengths": self._lengths, "open": self._open}

"""A Stable-Baselines3 replay buffer as arrays, only the filled part."""

from __future__ import annotations

from typing import Any

import numpy as np
from stable_baselines3.common.buffers import ReplayBuffer

from alphaswarm_rl.agents.sb3.tensors import unfit
from alphaswarm_rl.core.contracts import State

Array = np.ndarray[Any, Any]

_FIELDS = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")


def _columns(buffer: ReplayBuffer) -> dict[str, Array]:
    columns: dict[str, Array] = {}
    for name in _FIELDS:
        value = getattr(buffer, name)
        columns |= (
            {f"{name}/{key}": array for key, array in value.items()} if isinstance(value, dict) else {name: value}
        )
    return columns


def get_replay(buffer: ReplayBuffer) -> State:
    """What the buffer holds, and where it writes next."""
    rows = buffer.size()
    arrays = {name: column[:rows].copy() for name, column in _columns(buffer).items()}
    return State(arrays, {"position": int(buffer.pos), "full": bool(buffer.full)})


class ReplayToLoad:
    """A replay buffer's content, checked against a buffer; `load` then fills it."""

    def __init__(self, buffer: ReplayBuffer, state: State) -> None:
        self._buffer = buffer
        self._arrays = state.arrays
        columns = _columns(buffer)
        if columns.keys() != state.arrays.keys() or state.data.keys() != {"position", "full"}:
            raise unfit("its replay buffer has other columns")
        self._position, self._full = int(state.data["position"]), bool(state.data["full"])
        self._rows = buffer.buffer_size if self._full else self._position
        for name, column in columns.items():
            expected = (self._rows, *column.shape[1:])
            if state.arrays[name].shape != expected or self._position >= buffer.buffer_size:
                raise unfit(
                    f"the column {name!r} of its replay buffer has the shape {state.arrays[name].shape}, "
                    f"which does not fit {column.shape}"
                )

    def load(self) -> None:
        """Fills the buffer."""
        for name, column in _columns(self._buffer).items():
            column[: self._rows] = self._arrays[name]
        self._buffer.pos, self._buffer.full = self._position, self._full


def end_trajectories(buffer: ReplayBuffer) -> None:
    """Marks the newest transitions as the last of their episodes, before environments are reset in mid-episode.

    Otherwise an n-step return would run on into an episode that is another one. A one-step target does not change:
    it looks at the mark only where an episode is done.
    """
    if buffer.size() > 0:
        newest = (buffer.pos - 1) % buffer.buffer_size
        buffer.timeouts[newest] = np.logical_or(buffer.timeouts[newest], buffer.dones[newest] == 0)

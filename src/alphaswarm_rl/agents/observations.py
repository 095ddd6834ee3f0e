"""Batches of observations of any Gymnasium space: as rows of numbers, as named arrays, and some rows of them.

A batch is what a vector environment hands out: an array whose first axis counts environments, or a dict or tuple of
such batches. Networks see it flat, (n, numbers) float32; a checkpoint keeps it leaf by leaf under `name/part/...`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from gymnasium import spaces

from alphaswarm_rl.core.errors import CheckpointError, EnvError
from alphaswarm_rl.core.types import AnySpace, Array, Batch

#: Makes a batch of observations flat, (n, numbers) float32.
Flatten = Callable[[Batch], Array]


def flattening(space: AnySpace) -> tuple[int, Flatten]:
    """How many numbers an observation of that space has, and the function that makes a batch of them flat.

    A choice becomes one number per possibility, 1 for the one it is; parts of a Dict or a Tuple stand side by side.
    """
    if isinstance(space, spaces.Box | spaces.MultiBinary):
        return int(np.prod(space.shape)), _as_rows
    if isinstance(space, spaces.Discrete):
        return int(space.n), _one_hot((int(space.n),), np.array([int(space.start)]))
    if isinstance(space, spaces.MultiDiscrete):
        sizes = tuple(int(size) for size in np.ravel(space.nvec))
        return sum(sizes), _one_hot(sizes, np.ravel(space.start))
    if isinstance(space, spaces.Dict | spaces.Tuple):
        parts = dict(space.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces))
        inner = {name: flattening(part) for name, part in parts.items()}
        width = sum(size for size, _ in inner.values())
        return width, lambda batch: np.concatenate([flat(batch[name]) for name, (_, flat) in inner.items()], axis=1)
    raise EnvError(
        f"observation space {space}",
        "the native agents see numbers",
        "Use an environment with Box, Discrete, MultiDiscrete, MultiBinary, Dict or Tuple observations.",
    )


def _as_rows(batch: Batch) -> Array:
    return np.ascontiguousarray(batch, np.float32).reshape(len(batch), -1)


def _one_hot(sizes: tuple[int, ...], first: Array) -> Flatten:
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)

    def flatten(batch: Batch) -> Array:
        chosen = np.asarray(batch).reshape(len(batch), -1) - first + starts
        rows = np.zeros((len(chosen), sum(sizes)), np.float32)
        np.put_along_axis(rows, chosen.astype(np.int64), 1.0, axis=1)
        return rows

    return flatten


def select_rows(batch: Batch, rows: Array) -> Batch:
    """Some environments' observations of a batch; Gymnasium's own final ones are arrays of arrays."""
    if isinstance(batch, dict):
        return {name: select_rows(part, rows) for name, part in batch.items()}
    if isinstance(batch, tuple):
        return tuple(select_rows(part, rows) for part in batch)
    chosen = np.asarray(batch)[rows]
    return np.stack(list(chosen)) if chosen.dtype == object else chosen


def to_arrays(batch: Batch, name: str = "observation") -> dict[str, Array]:
    """Copies of the leaves of a batch, named after their way from `name`."""
    if isinstance(batch, dict | tuple):
        parts = batch.items() if isinstance(batch, dict) else enumerate(batch)
        return {key: leaf for part, item in parts for key, leaf in to_arrays(item, f"{name}/{part}").items()}
    return {name: np.array(batch)}


def last_observation(space: AnySpace, arrays: dict[str, Array], name: str = "observation") -> Batch | None:
    """The batch that was saved under that name; None where none was."""
    saved = any(key.partition("/")[0] == name for key in arrays)
    return _from_arrays(space, arrays, name) if saved else None


def _from_arrays(space: AnySpace, arrays: dict[str, Array], name: str) -> Batch:
    """The batch of observations; arrays that do not fit the space are a CheckpointError."""
    if isinstance(space, spaces.Dict):
        return {part: _from_arrays(item, arrays, f"{name}/{part}") for part, item in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_from_arrays(item, arrays, f"{name}/{part}") for part, item in enumerate(space.spaces))
    array = arrays.get(name)
    if array is None or array.shape[1:] != space.shape:
        raise CheckpointError(
            "the state of the agent",
            f"its {name} does not fit the observation space {space}",
            "Load a checkpoint of the same environment.",
        )
    return np.array(array)

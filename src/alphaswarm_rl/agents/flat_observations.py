"""Observations of any space as rows of numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from alphaswarm_rl.core.errors import EnvError

Array = np.ndarray[Any, Any]
Flatten = Callable[[Any], Array]


def flattening(space: Space[Any]) -> tuple[int, Flatten]:
    """How many numbers an observation of that space has, and what makes a batch of them (n, numbers) float32.

    A choice becomes one number per possibility, 1 for the one it is; parts of a Dict or a Tuple stand side by side.
    """
    if isinstance(space, spaces.Box):
        return int(np.prod(space.shape)), _row
    if isinstance(space, spaces.MultiBinary):
        return int(np.prod(space.shape)), _row
    if isinstance(space, spaces.Discrete):
        return int(space.n), _one_hot((int(space.n),), np.array([int(space.start)]))
    if isinstance(space, spaces.MultiDiscrete):
        sizes = tuple(int(size) for size in np.ravel(space.nvec))
        return sum(sizes), _one_hot(sizes, np.ravel(space.start))
    if isinstance(space, spaces.Dict | spaces.Tuple):
        parts = dict(space.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces))
        inner = {name: flattening(part) for name, part in parts.items()}
        width = sum(its for its, _ in inner.values())
        return width, lambda seen: np.concatenate([flat(seen[name]) for name, (_, flat) in inner.items()], axis=1)
    raise EnvError(
        f"observation space {space}",
        "the native agents see numbers",
        "Use an environment with Box, Discrete, MultiDiscrete, MultiBinary, Dict or Tuple observations.",
    )


def _row(seen: Any) -> Array:
    return np.ascontiguousarray(seen, np.float32).reshape(len(seen), -1)


def _one_hot(sizes: tuple[int, ...], first: Array) -> Flatten:
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)

    def flatten(seen: Any) -> Array:
        chosen = np.asarray(seen).reshape(len(seen), -1) - first + starts
        rows = np.zeros((len(chosen), sum(sizes)), np.float32)
        np.put_along_axis(rows, chosen.astype(np.int64), 1.0, axis=1)
        return rows

    return flatten

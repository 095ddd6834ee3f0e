"""Observations of any space as named arrays, and back: how a checkpoint keeps what was seen last."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import Space, spaces

from alphaswarm_rl.core.errors import CheckpointError

Array = np.ndarray[Any, Any]


def to_arrays(observation: Any, name: str) -> dict[str, Array]:
    """Copies of the parts of a batch of observations, named after their way from `name`."""
    if isinstance(observation, dict):
        return {key: a for part, item in observation.items() for key, a in to_arrays(item, f"{name}/{part}").items()}
    if isinstance(observation, tuple):
        return {key: a for part, item in enumerate(observation) for key, a in to_arrays(item, f"{name}/{part}").items()}
    return {name: np.array(observation)}


def last_observation(space: Space[Any], arrays: dict[str, Array], name: str = "observation") -> Any:
    """The batch that was saved under that name; None where none was."""
    saved = any(key.partition("/")[0] == name for key in arrays)
    return from_arrays(space, arrays, name) if saved else None


def from_arrays(space: Space[Any], arrays: dict[str, Array], name: str) -> Any:
    """The batch of observations; arrays that do not fit the space are a CheckpointError."""
    if isinstance(space, spaces.Dict):
        return {part: from_arrays(item, arrays, f"{name}/{part}") for part, item in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(from_arrays(item, arrays, f"{name}/{part}") for part, item in enumerate(space.spaces))
    array = arrays.get(name)
    if array is None or array.shape[1:] != space.shape:
        raise CheckpointError(
            "the state of the agent",
            f"its {name} does not fit the observation space {space}",
            "Load a checkpoint of the same environment.",
        )
    return np.array(array)

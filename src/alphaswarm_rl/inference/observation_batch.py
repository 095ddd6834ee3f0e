"""What a policy is asked: an observation, or a batch of them, as whoever asks writes it down."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from alphaswarm_rl.core.errors import RunError


def as_batch(observations: Any, space: spaces.Space[Any]) -> tuple[Any, bool]:
    """A batch of observations, and whether it was one observation alone.

    Args:
        observations: Numbers in the shape of the space, or that many more along a first axis; for a Dict space a
            mapping of such.
        space: The space of one observation.
    """
    if isinstance(space, spaces.Dict):
        return _mapping(observations, space)
    try:
        # What does not fit the type becomes infinite, and is refused.
        with np.errstate(over="ignore", invalid="ignore"):
            exact = np.asarray(observations, dtype=np.float64)
            array = exact.astype(space.dtype)
    except (TypeError, ValueError) as error:
        raise RunError(
            "the observation", f"it is not an array of numbers: {error}", f"Send one of shape {space.shape}."
        ) from error
    alone = array.shape == space.shape
    if not alone and (array.shape[1:] != space.shape or array.ndim == len(space.shape or ()) or not len(array)):
        raise RunError("the observation", f"its shape is {array.shape}", f"Send one of shape {space.shape}.")
    if not np.isfinite(array).all():
        raise RunError("the observation", "it holds NaN or infinity", "Send finite numbers.")
    batch = array[None] if alone else array
    if np.issubdtype(array.dtype, np.integer) and not (
        np.array_equal(exact, array) and all(_contains(space, row) for row in batch)
    ):
        raise RunError("the observation", f"it is not in {space}", "Send whole numbers of that range.")
    return batch, alone


def batch_length(batch: Any) -> int:
    """How many observations a batch holds."""
    return len(next(iter(batch.values()))) if isinstance(batch, dict) else len(batch)


def _mapping(observations: Any, space: spaces.Dict) -> tuple[Any, bool]:
    if not isinstance(observations, dict) or set(observations) != set(space.spaces):
        raise RunError(
            "the observation", f"a mapping with the keys {sorted(space.spaces)} is needed", "Send such a mapping."
        )
    parts = {key: as_batch(observations[key], part) for key, part in space.spaces.items()}
    if len({(alone, batch_length(batch)) for batch, alone in parts.values()}) > 1:
        raise RunError("the observation", "its parts are of different numbers of observations", "Send equally many.")
    return {key: batch for key, (batch, _) in parts.items()}, all(alone for _, alone in parts.values())


def _contains(space: spaces.Space[Any], row: np.ndarray[Any, Any]) -> bool:
    return bool(space.contains(row.item() if row.ndim == 0 else row))

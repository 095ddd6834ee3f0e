"""Observations as clients send them, one or a batch, in any form NumPy reads: checked and shaped for a policy."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from gymnasium import spaces

from alphaswarm_rl.core.errors import RunError
from alphaswarm_rl.core.types import AnyObservation, AnySpace, Array


def as_batch(observations: object, space: AnySpace) -> tuple[AnyObservation, bool]:
    """A batch of observations, and whether it was one observation alone.

    Args:
        observations: Numbers in the shape of the space, or that many more along a first axis; for a Dict space a
            mapping of such.
        space: The space of one observation.
    """
    if isinstance(space, spaces.Dict):
        return _mapping(observations, space)
    if isinstance(observations, Mapping):
        raise RunError(
            "the observation",
            "it is a mapping, and none is observed here",
            f'Send an array of shape {space.shape}, or one as "observation" of a mapping.',
        )
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


def batch_length(batch: AnyObservation) -> int:
    """How many observations a batch holds."""
    return len(next(iter(batch.values())) if isinstance(batch, Mapping) else batch)


def as_starts(episode_start: object, batch: AnyObservation) -> Array:
    """Which observations of a batch begin an episode; None: none does."""
    starts = np.asarray(False if episode_start is None else episode_start)
    if starts.dtype != np.bool_ or starts.shape not in ((), (batch_length(batch),)):
        raise RunError(
            "episode_start", f"it is {episode_start!r}", "Write true or false, or one of them per observation."
        )
    return np.array(np.broadcast_to(starts, (batch_length(batch),)))


def _mapping(observations: object, space: spaces.Dict) -> tuple[AnyObservation, bool]:
    if not isinstance(observations, dict) or set(observations) != set(space.spaces):
        raise RunError(
            "the observation", f"a mapping with the keys {sorted(space.spaces)} is needed", "Send such a mapping."
        )
    parts = {key: as_batch(observations[key], part) for key, part in space.spaces.items()}
    if len({(alone, batch_length(batch)) for batch, alone in parts.values()}) > 1:
        raise RunError("the observation", "its parts are of different numbers of observations", "Send equally many.")
    return {key: batch for key, (batch, _) in parts.items()}, all(alone for _, alone in parts.values())


def _contains(space: AnySpace, row: Array) -> bool:
    return bool(space.contains(row.item() if row.ndim == 0 else row))

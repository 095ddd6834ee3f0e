"""Numbers that are not finite end a run: a policy that learns from them learns nothing, and says nothing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from alphaswarm_rl.core.errors import EnvError


def refuse_not_finite(observation: Any, rewards: np.ndarray[Any, Any], *, step: int) -> None:
    """Refuses observations and rewards that hold NaN or infinity.

    Args:
        observation: A batch of observations; a mapping for a Dict space.
        rewards: A batch of rewards.
        step: The vector step that gave them, for the message.
    """
    if not _finite(rewards):
        _refuse("reward", int(np.flatnonzero(~np.isfinite(rewards))[0]), step)
    parts = observation.values() if isinstance(observation, dict) else (observation,)
    for part in parts:
        if part.dtype.kind == "f" and not _finite(part):
            bad = ~np.isfinite(part).reshape(len(part), -1).all(axis=1)
            _refuse("observation", int(np.flatnonzero(bad)[0]), step)


def _finite(array: np.ndarray[Any, Any]) -> bool:
    # A sum is four times as fast as a look at each value, and finite for all but huge ones; those are looked at.
    return math.isfinite(array.sum(dtype=np.float64)) or bool(np.isfinite(array).all())


def _refuse(what: str, index: int, step: int) -> None:
    raise EnvError(
        f"the environment's {what}",
        f"environment {index} gave NaN or infinity at vector step {step}",
        "Mend the environment, or its data.",
    )

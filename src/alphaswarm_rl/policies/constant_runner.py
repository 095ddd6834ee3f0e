"""The built constant policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from alphaswarm_rl.core.contracts import State
from alphaswarm_rl.core.errors import ComponentError
from alphaswarm_rl.policies.batch import batch_size

Array = np.ndarray[Any, Any]


def constant_action(action: float | Sequence[float] | None, space: Space[Any]) -> Array:
    """The action as an array of the space's shape and type, checked to lie in the space."""
    if not isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
        raise ComponentError(
            "policy 'constant'",
            f"the action space {space} is of a kind it does not know",
            "Use it with a Box, Discrete, MultiDiscrete or MultiBinary space.",
        )
    if action is None:
        return _default_action(space)
    given = np.asarray(action, dtype=np.float64)
    shape, dtype = space.shape or (), np.dtype(space.dtype)
    size = int(np.prod(shape))
    if given.ndim == 1 and given.size != size:
        raise ComponentError(
            "policy 'constant'",
            f"its action has {given.size} entries, the action space {space} has {size}",
            f"Give {size}.",
        )
    full = np.broadcast_to(given, shape) if given.ndim == 0 else given.reshape(shape)
    result = np.array(full, dtype=dtype)
    # A cast may round (2.7 to 2) or wrap (-1 to 255): an integer space must get exactly what was asked for.
    exact = np.issubdtype(dtype, np.floating) or np.array_equal(result.astype(np.float64), full)
    if not exact or not space.contains(result if shape else dtype.type(result)):
        raise ComponentError(
            "policy 'constant'",
            f"its action {action} lies outside the action space {space}",
            "Choose an action inside it.",
        )
    return result


def _default_action(space: Any) -> Array:
    if isinstance(space, spaces.Box):
        if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
            raise ComponentError(
                "policy 'constant'", f"the action space {space} has no middle: it is unbounded", "Give it an action."
            )
        middle = (space.low.astype(np.float64) + space.high.astype(np.float64)) / 2
        return np.array(middle, dtype=space.dtype)
    start = getattr(space, "start", 0)
    return np.array(np.broadcast_to(start, space.shape or ()), dtype=space.dtype)


class ConstantRunner:
    """Answers every observation with one action."""

    def __init__(self, action: Array) -> None:
        self._action = action

    def act(self, observation: Any, *, deterministic: bool) -> Array:
        """The action, once per environment; nothing here is random, so `deterministic` changes nothing."""
        return np.repeat(self._action[np.newaxis], batch_size(observation), axis=0)

    def get_state(self) -> State:
        """Nothing: the action is a parameter."""
        return State()

    def set_state(self, state: State) -> None:
        """Nothing to put back."""

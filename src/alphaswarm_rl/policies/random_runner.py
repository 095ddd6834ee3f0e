"""The built random policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from alphaswarm_rl.core import seeding
from alphaswarm_rl.core.contracts import State
from alphaswarm_rl.core.errors import ComponentError
from alphaswarm_rl.core.generator_state import generator_state, set_generator_state
from alphaswarm_rl.policies.batch import batch_size

Array = np.ndarray[Any, Any]


class RandomRunner:
    """Draws one action per environment, all of a step in one draw."""

    def __init__(self, action_space: Space[Any], seed: int) -> None:
        self._draw = _drawer(action_space)
        self._generator = seeding.generator(seed, "policy", "random")

    def act(self, observation: Any, *, deterministic: bool) -> Array:
        """Random actions; `deterministic` has no effect, for without its dice this policy is no policy."""
        return self._draw(self._generator, batch_size(observation))

    def get_state(self) -> State:
        """Where the random stream stands."""
        return State(data={"generator": generator_state(self._generator)})

    def set_state(self, state: State) -> None:
        """Continues the random stream from there."""
        set_generator_state(self._generator, state.data["generator"])


def _drawer(space: Any) -> Callable[[np.random.Generator, int], Array]:
    if isinstance(space, spaces.Discrete):
        low, high = int(space.start), int(space.start + space.n)
        return lambda generator, n: generator.integers(low, high, size=n, dtype=space.dtype)
    if isinstance(space, spaces.MultiDiscrete):
        start, stop = space.start, space.start + space.nvec
        return lambda generator, n: generator.integers(start, stop, size=(n, *space.shape), dtype=space.dtype)
    if isinstance(space, spaces.MultiBinary):
        return lambda generator, n: generator.integers(0, 2, size=(n, *space.shape), dtype=space.dtype)
    if isinstance(space, spaces.Box):
        return _box_drawer(space)
    raise ComponentError(
        "policy 'random'",
        f"it cannot draw from the action space {space}",
        "Use it with a Box, Discrete, MultiDiscrete or MultiBinary space.",
    )


def _box_drawer(space: spaces.Box) -> Callable[[np.random.Generator, int], Array]:
    if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
        raise ComponentError(
            "policy 'random'",
            f"the action space {space} is unbounded, and nothing is uniform there",
            "Bound the action space.",
        )
    low, high = space.low, space.high
    if np.issubdtype(space.dtype, np.integer):
        return lambda generator, n: generator.integers(
            low, high, size=(n, *space.shape), dtype=space.dtype, endpoint=True
        )
    low, high = low.astype(np.float64), high.astype(np.float64)
    return lambda generator, n: generator.uniform(low, high, size=(n, *space.shape)).astype(space.dtype)

"""The built policies that need no market: one constant action, random actions, and a policy that was trained before.

Each answers a batch of observations with one action per environment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from gymnasium import spaces

from alphaswarm_rl.core import seeding
from alphaswarm_rl.core.contracts import PolicyRequest, State, TrainedPolicy
from alphaswarm_rl.core.errors import ComponentError
from alphaswarm_rl.core.generator_state import generator_state, set_generator_state
from alphaswarm_rl.core.types import AnySpace, Array, Batch


def batch_size(observation: Batch) -> int:
    """How many environments an observation is of; Dict and Tuple observations are batched leaf by leaf."""
    while isinstance(observation, dict | tuple):
        observation = next(iter(observation.values())) if isinstance(observation, dict) else observation[0]
    return len(observation)


class ConstantRunner:
    """Answers every observation with one action."""

    def __init__(self, action: Array) -> None:
        self._action = action

    def act(self, observation: Batch, *, deterministic: bool) -> Array:
        """The action, once per environment; nothing here is random, so `deterministic` changes nothing."""
        return np.repeat(self._action[np.newaxis], batch_size(observation), axis=0)

    def get_state(self) -> State:
        """Nothing: the action is a parameter."""
        return State()

    def set_state(self, state: State) -> None:
        """Nothing to put back."""


def constant_action(action: float | Sequence[float] | None, space: AnySpace) -> Array:
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
    if not exact or not space.contains(result if shape else result[()]):
        raise ComponentError(
            "policy 'constant'",
            f"its action {action} lies outside the action space {space}",
            "Choose an action inside it.",
        )
    return result


def _default_action(space: AnySpace) -> Array:
    if isinstance(space, spaces.Box):
        if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
            raise ComponentError(
                "policy 'constant'", f"the action space {space} has no middle: it is unbounded", "Give it an action."
            )
        return np.array((space.low.astype(np.float64) + space.high.astype(np.float64)) / 2, dtype=space.dtype)
    return np.array(np.broadcast_to(getattr(space, "start", 0), space.shape or ()), dtype=space.dtype)


class RandomRunner:
    """Draws one action per environment, all of a step in one draw."""

    def __init__(self, action_space: AnySpace, seed: int) -> None:
        self._draw = _drawer(action_space)
        self._generator = seeding.generator(seed, "policy", "random")

    def act(self, observation: Batch, *, deterministic: bool) -> Array:
        """Random actions; `deterministic` has no effect, for without its dice this policy is no policy."""
        return self._draw(self._generator, batch_size(observation))

    def get_state(self) -> State:
        """Where the random stream stands."""
        return State(data={"generator": generator_state(self._generator)})

    def set_state(self, state: State) -> None:
        """Continues the random stream from there."""
        set_generator_state(self._generator, state.data["generator"])


def _drawer(space: AnySpace) -> Callable[[np.random.Generator, int], Array]:
    if isinstance(space, spaces.Discrete):
        low, high = int(space.start), int(space.start) + int(space.n)
        return lambda generator, n: generator.integers(low, high, size=n, dtype=space.dtype)
    if isinstance(space, spaces.MultiDiscrete):
        start, stop = space.start, np.add(space.start, space.nvec)
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


class FrozenRunner:
    """Runs a trained policy, episode by episode.

    Args:
        policy: The trained policy.
        request: Where it acts.
        deterministic: Whether it acts without drawing; None: as each call says.
    """

    def __init__(self, policy: TrainedPolicy, request: PolicyRequest, *, deterministic: bool | None) -> None:
        for name in ("observation", "action"):
            trained_for, given = (getattr(side, f"{name}_space") for side in (policy, request))
            if trained_for != given:
                raise ComponentError(
                    "policy 'frozen'",
                    f"it was trained for the {name} space {trained_for}, and the environment's is {given}",
                    "Use it in an environment of the same spaces.",
                )
        self._policy = policy
        self._deterministic = deterministic
        #: What a policy draws from is no part of its state.
        self.resume: Literal["exact", "approximate"] = "exact" if deterministic else "approximate"
        policy.seed(request.seed, request.env)

    def act(self, observation: Batch, *, deterministic: bool) -> Array:
        """Actions, as if no episode had started since it was last asked."""
        none = np.zeros(batch_size(observation), np.bool_)
        return self.act_in_episodes(observation, none, deterministic=deterministic)

    def act_in_episodes(
        self, observation: Batch, episode_start: Array, *, deterministic: bool, masks: Array | None = None
    ) -> Array:
        """Actions; what it remembers of an environment is forgotten where an episode starts."""
        chosen = deterministic if self._deterministic is None else self._deterministic
        return self._policy.act(observation, episode_start, deterministic=chosen, masks=masks)

    def get_state(self) -> State:
        """What it remembers of the episodes in progress."""
        return self._policy.get_state()

    def set_state(self, state: State) -> None:
        """Continues these episodes."""
        self._policy.set_state(state)

"""What a policy network's outputs mean: the action space of one environment, as an actor-critic sees it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from gymnasium import spaces

from alphaswarm_rl.core.errors import EnvError
from alphaswarm_rl.core.types import AnySpace, Array


@dataclass(frozen=True)
class ActionHead:
    """A discrete head has one group of logits per component; a Gaussian head has a mean per number.

    A number with two bounds is drawn on the scale where they are -1 and 1. All are clipped when they are handed out.

    Attributes:
        shape: Shape of one action.
        dtype: Type of its numbers.
        sizes: Choices of each discrete component; empty for a Gaussian head.
        first: The number of each component's first choice.
        low: Lower bounds, (k,); minus infinity where there are none.
        high: Upper bounds, (k,); infinity where there are none.
        bounded: Which numbers have both, (k,).
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    sizes: tuple[int, ...]
    first: Array
    low: Array
    high: Array
    bounded: Array

    @classmethod
    def of(cls, space: AnySpace) -> ActionHead:
        """The head of an action space; a space that has none is an EnvError."""
        none = np.zeros(0)
        shape, kind = space.shape or (), np.dtype(space.dtype)
        if isinstance(space, spaces.Discrete):
            return cls(shape, kind, (int(space.n),), np.array([int(space.start)]), none, none, none)
        if isinstance(space, spaces.MultiDiscrete):
            sizes = tuple(int(count) for count in np.ravel(space.nvec))
            return cls(shape, kind, sizes, np.ravel(space.start).astype(np.int64), none, none, none)
        if isinstance(space, spaces.MultiBinary):
            sizes = (2,) * int(np.prod(shape))
            return cls(shape, kind, sizes, np.zeros(len(sizes), np.int64), none, none, none)
        if isinstance(space, spaces.Box) and kind.kind == "f":
            low, high = (np.ravel(bound).astype(np.float64) for bound in (space.low, space.high))
            bounded = np.isfinite(low) & np.isfinite(high)
            return cls(shape, kind, (), none, low, high, bounded)
        raise EnvError(
            f"action space {space}",
            "the native agents choose among discrete actions or real numbers",
            "Use an environment with Discrete, MultiDiscrete, MultiBinary or Box actions.",
        )

    @property
    def discrete(self) -> bool:
        """Whether it chooses rather than measures."""
        return bool(self.sizes)

    @property
    def outputs(self) -> int:
        """Numbers that the network gives for it."""
        return sum(self.sizes) if self.discrete else len(self.low)

    @property
    def numbers(self) -> int:
        """Numbers of one action as it is drawn."""
        return len(self.sizes) if self.discrete else len(self.low)

    def to_env(self, drawn: Array) -> Array:
        """Actions as the environment takes them, of actions as they were drawn, (n, k)."""
        n = len(drawn)
        if self.discrete:
            return (drawn + self.first).astype(self.dtype, copy=False).reshape(n, *self.shape)
        middle, half = self.scale
        return np.clip(middle + drawn * half, self.low, self.high).astype(self.dtype).reshape(n, *self.shape)

    @cached_property
    def scale(self) -> tuple[Array, Array]:
        """What a number of 0 means, and what one more does."""
        low, high = np.where(self.bounded, self.low, -1.0), np.where(self.bounded, self.high, 1.0)
        return (low + high) / 2, (high - low) / 2

    def legal(self, masks: Array, n: int) -> Array:
        """Which choices are legal, (n, outputs); where a component has none that is an EnvError."""
        found = np.reshape(np.asarray(masks, np.bool_), (n, self.outputs))
        starts = np.cumsum((0, *self.sizes[:-1]))
        if not np.logical_or.reduceat(found, starts, axis=1).all():
            raise EnvError(
                "an action mask", "it allows nothing at all", "Let the environment end the episode, or allow an action."
            )
        return found

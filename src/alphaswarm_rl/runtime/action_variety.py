"""Whether a policy was ever updated, and whether its actions depend on what it sees."""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box

from alphaswarm_rl.core.contracts import Learner
from alphaswarm_rl.core.types import AnySpace, Array, Batch, Masks
from alphaswarm_rl.recording.steps import as_numpy

#: Actions that differ by less, relative to their size, are the same.
_SAME = 1e-6


def updates_of(learner: Learner) -> int | None:
    """The updates that made a learner's policy; None where it does not count them, as agents of others may not."""
    return getattr(learner, "updates", None)


class ActionVariety:
    """Asks a policy on its way what it would do without drawing, until two of its actions differ.

    Args:
        space: The space of one action: beyond its bounds all actions are the same.
    """

    def __init__(self, space: AnySpace) -> None:
        #: None until the policy was asked.
        self.found: bool | None = None
        self._space = space
        self._first: Array | None = None

    def ask(self, learner: Learner, observation: Batch, memory: object, starts: Array, masks: Masks) -> None:
        """What the policy would do now; a rule is not asked: it may draw all the same, and was never updated."""
        if self.found or updates_of(learner) == 0:
            return
        actions, _ = learner.predict(observation, memory, starts, deterministic=True, masks=masks)
        self.add(actions)

    def add(self, actions: Array) -> None:
        """Takes in the actions of one step, one row per environment."""
        taken = as_numpy(actions)
        if isinstance(self._space, Box):
            taken = np.clip(taken, self._space.low, self._space.high)
        if self._first is None:
            self._first = taken[0].copy()
        tolerance = _SAME * (1.0 + np.abs(self._first)) if taken.dtype.kind == "f" else 0
        self.found = bool((np.abs(taken.astype(np.float64) - self._first) > tolerance).any())

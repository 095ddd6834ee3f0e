"""Observations and rewards on a common scale, by what training has seen so far."""

from __future__ import annotations

from typing import Any

import numpy as np

from alphaswarm_rl.agents.native.running_moments import CLIP, RunningMoments
from alphaswarm_rl.core.contracts import State

Array = np.ndarray[Any, Any]


class ObservationScale:
    """Standardises observations. Its statistics change between rollouts alone: a rollout is seen by one measure.

    Args:
        width: Numbers of one observation.
    """

    def __init__(self, width: int) -> None:
        self.moments = RunningMoments(np.zeros(width))
        self._refresh()

    def begin(self, observations: Array) -> None:
        """Before anything is known, the size of the first observations is the measure."""
        if self.moments.count == 0:
            self.moments.variance = np.maximum(1.0, np.abs(observations).max(axis=0).astype(np.float64)) ** 2
            self._refresh()

    def update(self, observations: Array) -> None:
        """Takes a rollout in, (n, width)."""
        self.moments.update(observations)
        self._refresh()

    def __call__(self, observations: Array) -> Array:
        """Standardised, and cut at ten standard deviations."""
        scaled = observations - self._mean
        scaled *= self._inverse
        return np.clip(scaled, -CLIP, CLIP, out=scaled)

    def get_state(self) -> State:
        """The moments."""
        return self.moments.get_state()

    def set_state(self, state: State) -> None:
        """Continues from there."""
        self.moments.set_state(state)
        self._refresh()

    def _refresh(self) -> None:
        self._mean = self.moments.mean.astype(np.float32)
        self._inverse = (1.0 / self.moments.deviation).astype(np.float32)


class RewardScale:
    """Divides rewards by the spread of their discounted sums, so that values are of order one.

    Args:
        num_envs: How many environments there are.
        gamma: Discount per step.
    """

    def __init__(self, num_envs: int, gamma: float) -> None:
        self.moments = RunningMoments(np.zeros(()))
        self._gamma = gamma
        self._sums = np.zeros(num_envs)

    def __call__(self, rewards: Array, ended: Array) -> Array:
        """The rewards of a rollout, (T, N), on the scale that includes them."""
        sums = np.empty(rewards.shape)
        running = self._sums
        for step in range(len(rewards)):
            running = running * self._gamma + rewards[step]
            sums[step] = running
            running = np.where(ended[step], 0.0, running)
        self._sums = running
        self.moments.update(sums.reshape(-1))
        return np.clip(rewards / self.moments.deviation, -CLIP, CLIP)

    def restart(self) -> None:
        """Every environment begins a new episode."""
        self._sums[:] = 0.0

    def get_state(self) -> State:
        """The moments and the running sums."""
        state = self.moments.get_state()
        return State({**state.arrays, "sums": self._sums.copy()}, state.data)

    def set_state(self, state: State) -> None:
        """Continues from there."""
        self.moments.set_state(state)
        self._sums = np.array(state.arrays["sums"])

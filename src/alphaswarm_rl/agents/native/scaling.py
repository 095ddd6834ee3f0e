"""Observations and rewards on a common scale, by running mean and variance of what training has seen so far."""

from __future__ import annotations

import numpy as np

from alphaswarm_rl.advantage.functions import namespace
from alphaswarm_rl.core.contracts import State
from alphaswarm_rl.core.types import Array, BackendArray

#: Standardised numbers are cut at this many standard deviations.
CLIP = 10.0
#: A deviation below this share of the mean is taken for rounding.
_RELATIVE = 1e-6
_TINY = 1e-8


class RunningMoments:
    """Mean and variance of everything so far, in float64, NumPy or torch.

    Args:
        zeros: An array of zeros in float64, of the shape of one sample.
    """

    def __init__(self, zeros: BackendArray) -> None:
        self.count = 0.0
        self.mean = zeros
        self.variance = zeros + 1.0

    def update(self, samples: BackendArray) -> None:
        """Takes samples in, (n, *shape)."""
        # In float64, but one pass over float32: the sums are what needs the digits.
        mean = samples.mean(0, dtype=namespace(samples).float64)
        self.merge(samples.shape[0], mean, ((samples - mean) ** 2).mean(0))

    def merge(self, count: float, mean: BackendArray, variance: BackendArray) -> None:
        """Takes in so many samples of that mean and variance."""
        total = self.count + count
        change = mean - self.mean
        self.mean = self.mean + change * (count / total)
        spread = self.variance * self.count + variance * count + change**2 * (self.count * count / total)
        self.variance = spread / total
        self.count = total

    @property
    def deviation(self) -> BackendArray:
        """What to divide by. A number that hardly changes is not blown up to what its last digits do."""
        return (self.variance + (_RELATIVE * self.mean) ** 2) ** 0.5 + _TINY

    def get_state(self) -> State:
        """Count, mean and variance."""
        return State({"mean": _to_numpy(self.mean), "variance": _to_numpy(self.variance)}, {"count": self.count})

    def set_state(self, state: State) -> None:
        """Continues from there."""
        self.count = float(state.data["count"])
        self.mean, self.variance = (_like(self.mean, state.arrays[name]) for name in ("mean", "variance"))


def _to_numpy(array: BackendArray) -> Array:
    return array.cpu().numpy().copy() if hasattr(array, "cpu") else np.array(array)


def _like(array: BackendArray, values: Array) -> BackendArray:
    if isinstance(array, np.ndarray | np.generic):
        return np.array(values, np.float64)
    import torch

    return torch.as_tensor(values, dtype=array.dtype, device=array.device)


class ObservationScale(RunningMoments):
    """Standardises observations. Its statistics change between rollouts alone: a rollout is seen by one measure.

    Args:
        width: Numbers of one observation.
    """

    def __init__(self, width: int) -> None:
        super().__init__(np.zeros(width))
        self._refresh()

    def begin(self, observations: Array) -> None:
        """Before anything is known, the size of the first observations is the measure."""
        if self.count == 0:
            self.variance = np.maximum(1.0, np.abs(observations).max(axis=0).astype(np.float64)) ** 2
            self._refresh()

    def update(self, samples: BackendArray) -> None:
        """Takes a rollout in, (n, width)."""
        super().update(samples)
        self._refresh()

    def __call__(self, observations: Array) -> Array:
        """Standardised, and cut at ten standard deviations."""
        scaled: Array = observations - self._mean
        scaled *= self._inverse
        return np.clip(scaled, -CLIP, CLIP, out=scaled)

    def set_state(self, state: State) -> None:
        """Continues from there."""
        super().set_state(state)
        self._refresh()

    def _refresh(self) -> None:
        self._mean = np.asarray(self.mean, np.float32)
        self._inverse = np.asarray(1.0 / self.deviation, np.float32)


class RewardScale:
    """Divides rewards by the spread of their discounted sums, so that values are of order one; NumPy or torch.

    Args:
        zeros: Zeros in float64, one per environment.
        gamma: Discount per step.
    """

    def __init__(self, zeros: BackendArray, gamma: float) -> None:
        self.moments = RunningMoments(zeros.sum())
        self.sums = zeros
        self._gamma = gamma

    def __call__(self, rewards: BackendArray, ended: BackendArray) -> BackendArray:
        """The rewards of a rollout, (T, N), on the scale that includes them."""
        xp = namespace(rewards)
        sums = xp.empty_like(rewards, dtype=xp.float64)
        running = self.sums
        for step in range(len(rewards)):
            running = running * self._gamma + rewards[step]
            sums[step] = running
            running = xp.where(ended[step], 0.0, running)
        self.sums = running
        self.moments.update(sums.reshape(-1))
        return (rewards / xp.asarray(self.moments.deviation, dtype=rewards.dtype)).clip(-CLIP, CLIP)

    def restart(self) -> None:
        """Every environment begins a new episode."""
        self.sums[:] = 0.0

    def get_state(self) -> State:
        """The moments and the running sums."""
        state = self.moments.get_state()
        return State({**state.arrays, "sums": _to_numpy(self.sums)}, state.data)

    def set_state(self, state: State) -> None:
        """Continues from there."""
        self.moments.set_state(state)
        self.sums = _like(self.sums, state.arrays["sums"])

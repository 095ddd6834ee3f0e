"""Running mean and variance: what observations and rewards are put on a common scale by."""

from __future__ import annotations

from typing import Any

import numpy as np

from alphaswarm_rl.core.contracts import State

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

    def __init__(self, zeros: Any) -> None:
        self.count = 0.0
        self.mean = zeros
        self.variance = zeros + 1.0

    def update(self, samples: Any) -> None:
        """Takes samples in, (n, *shape)."""
        # In float64, but one pass over float32: the sums are what needs the digits.
        mean = samples.mean(0, dtype=_wide(samples))
        self.merge(samples.shape[0], mean, ((samples - mean) ** 2).mean(0))

    def merge(self, count: float, mean: Any, variance: Any) -> None:
        """Takes in so many samples of that mean and variance."""
        total = self.count + count
        change = mean - self.mean
        self.mean = self.mean + change * (count / total)
        spread = self.variance * self.count + variance * count + change**2 * (self.count * count / total)
        self.variance = spread / total
        self.count = total

    @property
    def deviation(self) -> Any:
        """What to divide by. A number that hardly changes is not blown up to what its last digits do."""
        return (self.variance + (_RELATIVE * self.mean) ** 2) ** 0.5 + _TINY

    def get_state(self) -> State:
        """Count, mean and variance."""
        return State({"mean": _numpy(self.mean), "variance": _numpy(self.variance)}, {"count": self.count})

    def set_state(self, state: State) -> None:
        """Continues from there."""
        self.count = float(state.data["count"])
        self.mean, self.variance = (_like(self.mean, state.arrays[name]) for name in ("mean", "variance"))


def _wide(samples: Any) -> Any:
    if isinstance(samples, np.ndarray):
        return np.float64
    import torch

    return torch.float64


def _numpy(array: Any) -> np.ndarray[Any, Any]:
    return array.cpu().numpy().copy() if hasattr(array, "cpu") else np.array(array)


def _like(array: Any, found: np.ndarray[Any, Any]) -> Any:
    if isinstance(array, np.ndarray | np.generic):
        return np.array(found, np.float64)
    import torch

    return torch.as_tensor(found, dtype=array.dtype, device=array.device)

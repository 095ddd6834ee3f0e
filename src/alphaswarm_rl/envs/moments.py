"""Mean and variance of a stream, batch by batch."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

#: How much the starting guess (mean 0, variance 1) weighs, in samples; Stable-Baselines3's value.
_WEIGHT_OF_THE_GUESS = 1e-4
_EPSILON = 1e-8


class Moments:
    """Running mean and variance of each entry of an observation, in float64 (Chan et al. 1979).

    Attributes:
        mean: Mean so far.
        var: Variance so far.
        count: Samples so far.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.mean = np.zeros(shape)
        self.var = np.ones(shape)
        self.count = _WEIGHT_OF_THE_GUESS

    def update(self, batch: Array) -> None:
        """Takes in a batch, whose first axis counts samples."""
        samples = batch.astype(np.float64)
        added = len(samples)
        mean = np.add.reduce(samples) / added
        samples -= mean
        squares = np.add.reduce(samples * samples)
        delta = mean - self.mean
        total = self.count + added
        self.var = (self.var * self.count + squares + delta * delta * (self.count * added / total)) / total
        self.mean = self.mean + delta * (added / total)
        self.count = total

    def normalize(self, batch: Array) -> Array:
        """The batch with mean 0 and variance 1, as far as is known, in float32."""
        return ((batch - self.mean) / np.sqrt(self.var + _EPSILON)).astype(np.float32)

    def arrays(self, name: str) -> dict[str, Array]:
        """Everything, under that name."""
        return {f"{name}.mean": self.mean.copy(), f"{name}.var": self.var.copy(), f"{name}.count": np.array(self.count)}

    def load(self, name: str, arrays: dict[str, Array]) -> None:
        """Becomes what `arrays` said; a KeyError or ValueError where that is not of this shape."""
        mean, var, count = (arrays[f"{name}.{part}"] for part in ("mean", "var", "count"))
        if mean.shape != self.mean.shape or var.shape != self.var.shape:
            raise ValueError(f"{name} is of shape {mean.shape}, not {self.mean.shape}")
        self.mean, self.var = mean.astype(np.float64), var.astype(np.float64)
        self.count = float(count)

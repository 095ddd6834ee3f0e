"""What numbers must be before anything is concluded from them."""

from __future__ import annotations

import numpy as np

from alphaswarm_rl.core.errors import StatisticsError
from alphaswarm_rl.core.types import Array


def finite(values: Array, what: str, *, dimensions: int) -> Array:
    """Numbers as float64, refused where one is not finite or there are other dimensions."""
    numbers = np.ascontiguousarray(values, dtype=np.float64)
    if numbers.ndim != dimensions:
        shape = "(periods,)" if dimensions == 1 else "(periods, columns)"
        raise StatisticsError(what, f"the shape is {numbers.shape}", f"Give {shape}.")
    bad = numbers.size - int(np.isfinite(numbers).sum())
    if bad:
        raise StatisticsError(what, f"{bad} of {numbers.size} are not finite", "Leave such periods out of all columns.")
    return numbers


def share(value: float, what: str) -> float:
    """A number between 0 and 1, both excluded."""
    if not 0.0 < value < 1.0:
        raise StatisticsError(f"{what} {value}", "it is out of range", "Give a number between 0 and 1.")
    return value

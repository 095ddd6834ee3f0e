"""The array functions that parts of environments may use, on NumPy; `arrays_torch` has the same names."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any


class NumpyArrays:
    """NumPy's functions. Two are written anew: NumPy's own wrappers cost more than the work on few environments."""

    float32, float64, int64, bool_ = np.float32, np.float64, np.int64, np.bool_
    inf, nan = np.inf, np.nan
    zeros, ones, full, zeros_like, arange = np.zeros, np.ones, np.full, np.zeros_like, np.arange
    where, maximum, minimum, abs, sign = np.where, np.maximum, np.minimum, np.abs, np.sign
    sqrt, log, log1p, exp, expm1 = np.sqrt, np.log, np.log1p, np.exp, np.expm1
    isfinite, isnan, floor, trunc = np.isfinite, np.isnan, np.floor, np.trunc
    mean, cumsum, any, all = np.mean, np.cumsum, np.any, np.all
    stack, concatenate = np.stack, np.concatenate

    @staticmethod
    def clip(array: Array, low: float, high: float) -> Array:
        """The array, cut to [low, high]."""
        return np.maximum(np.minimum(array, high), low)

    @staticmethod
    def sum(array: Array, axis: int = -1) -> Array:
        """The sum along an axis."""
        return np.add.reduce(array, axis=axis)


# The class itself: on an instance NumPy's functions would be bound as methods.
NUMPY_ARRAYS = NumpyArrays

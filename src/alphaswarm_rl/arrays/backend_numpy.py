"""NumPy, with Numba for what moves most bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from alphaswarm_rl.arrays import gather_numba as gather
from alphaswarm_rl.arrays.functions_numpy import NUMPY_ARRAYS

Array = np.ndarray[Any, Any]


class NumpyBackend:
    """The CPU's arrays; see `backend.Backend`."""

    xp = NUMPY_ARRAYS
    take = staticmethod(gather.take_rows)
    take_columns = staticmethod(gather.take_columns)
    take_window = staticmethod(gather.take_windows)
    take_growth = staticmethod(gather.take_growth)

    @staticmethod
    def take_weights(
        positions: Array, prices: Array, bar: Array, value: Array, out: Array, cash: Array | None = None
    ) -> None:
        """Writes positions (n, C) times row `bar[i]` of the prices over the value (n,) to `out`; 0 without value."""
        if cash is not None:
            out[:, 0] = cash / np.where(value > 0, value, np.inf)
            out = out[:, 1:]
        gather.take_weights(positions, prices, bar, value, out)

    @staticmethod
    def put(array: Array) -> Array:
        """The array itself, laid out row after row."""
        return np.ascontiguousarray(array)


NUMPY = NumpyBackend()

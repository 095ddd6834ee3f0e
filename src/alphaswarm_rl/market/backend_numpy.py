"""NumPy, with Numba for what moves most bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from alphaswarm_rl.market import kernels_numba_gather as gather
from alphaswarm_rl.market.arrays_numpy import NUMPY_ARRAYS


class NumpyBackend:
    """The CPU's arrays; see `backend.Backend`."""

    xp = NUMPY_ARRAYS
    take = staticmethod(gather.take_rows)
    take_columns = staticmethod(gather.take_columns)
    take_window = staticmethod(gather.take_windows)
    take_growth = staticmethod(gather.take_growth)
    take_weights = staticmethod(gather.take_weights)

    @staticmethod
    def put(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The array itself, laid out row after row."""
        return np.ascontiguousarray(array)


NUMPY = NumpyBackend()

"""Array backends: what an environment needs of NumPy or torch, NumPy's functions, and the devices of tensors.

Nothing here needs torch or Numba until it is called: `backend_numpy` and `backend_torch` hold the two backends.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from alphaswarm_rl.core.errors import EnvError, OptionError
from alphaswarm_rl.core.types import AnyArray, Array

if TYPE_CHECKING:
    import torch


class Backend(Protocol):
    """An array library: functions under NumPy's names, and reads of table rows.

    A table is (T, C), one row per bar. `bar` (n,) holds the row that each of n environments stands at. Results are
    written to `out`, cast on the way.
    """

    #: Array functions under NumPy's names.
    xp: Any

    def put(self, array: Array) -> AnyArray:
        """A NumPy array as an array of this library, on its device."""
        ...

    def take(self, table: AnyArray, bar: AnyArray, out: AnyArray) -> None:
        """Writes row `bar[i]` to `out[i]`."""
        ...

    def take_columns(self, table: AnyArray, bar: AnyArray, columns: AnyArray, out: AnyArray) -> None:
        """Writes the given columns of row `bar[i]` to `out[i]`."""
        ...

    def take_window(self, table: AnyArray, bar: AnyArray, length: int, out: AnyArray) -> None:
        """Writes the `length` rows up to `bar[i]`, oldest first, to `out[i]`, (n, length * C)."""
        ...

    def take_growth(self, table: AnyArray, bar: AnyArray, start: AnyArray, out: AnyArray) -> None:
        """Writes row `bar[i]` over row `start[i]` minus 1 to `out[i]`; 0 where the latter is not positive."""
        ...

    def take_weights(
        self,
        positions: AnyArray,
        prices: AnyArray,
        bar: AnyArray,
        value: AnyArray,
        out: AnyArray,
        cash: AnyArray | None = None,
    ) -> None:
        """Writes positions (n, C) times row `bar[i]` of the prices over the value (n,) to `out`; 0 without value.

        With cash (n,), `out` has one column more, the first, for the cash's part of the value.
        """
        ...


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
        total: Array = np.add.reduce(array, axis=axis)
        return total


# The class itself: on an instance NumPy's functions would be bound as methods.
NUMPY_ARRAYS = NumpyArrays


def resolve_device(name: str) -> str:
    """The device that a setting means on this machine; one that is not there is an error."""
    if name == "cpu" or (name == "auto" and not _may_have_accelerator()):
        return "cpu"
    import torch

    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        return next((name for name in ("cuda", "mps") if available[name]), "cpu")
    if not available[name]:
        raise OptionError(f"device {name!r}", "this machine has none that torch can use", "Use --device cpu or auto.")
    return name


def _may_have_accelerator() -> bool:
    """Whether torch is worth asking: it takes a second to load, and Linux shows every accelerator as a file."""
    files = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg", "/dev/kfd")
    return sys.platform != "linux" or any(map(os.path.exists, files))


def torch_device(name: str) -> torch.device:
    """The device of that name, with its number; an error where torch has none."""
    import torch

    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        raise EnvError(f"device {name!r}", f"torch has none: {error}", "Use cpu, or a machine that has it.") from error

"""Array backends: what an environment needs of NumPy or torch, NumPy's functions, and the devices of tensors.

Nothing here needs torch or Numba until it is called: `backend_numpy` and `backend_torch` hold the two backends.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import numpy as np

from alphaswarm_rl.core.errors import EnvError, OptionError
from alphaswarm_rl.core.types import Array

if TYPE_CHECKING:
    import torch


class NumpyArrays:
    """NumPy's functions. Three are written anew: NumPy's own wrappers cost more than the work on few environments."""

    float32, float64, int64, bool_ = np.float32, np.float64, np.int64, np.bool_
    inf, nan = np.inf, np.nan
    zeros, ones, full, zeros_like, arange = np.zeros, np.ones, np.full, np.zeros_like, np.arange
    where, maximum, minimum, abs, sign = np.where, np.maximum, np.minimum, np.abs, np.sign
    sqrt, log, log1p, exp, expm1 = np.sqrt, np.log, np.log1p, np.exp, np.expm1
    isfinite, isnan, floor, trunc = np.isfinite, np.isnan, np.floor, np.trunc
    mean, cumsum, any, all = np.mean, np.cumsum, np.any, np.all
    stack, concatenate, sort = np.stack, np.concatenate, np.sort

    @staticmethod
    def clip(array: Array, low: float, high: float) -> Array:
        """The array, cut to [low, high]."""
        return np.maximum(np.minimum(array, high), low)

    @staticmethod
    def sum(array: Array, axis: int = -1) -> Array:
        """The sum along an axis."""
        total: Array = np.add.reduce(array, axis=axis)
        return total

    @staticmethod
    def max(array: Array, axis: int = -1) -> Array:
        """The largest along an axis."""
        largest: Array = np.maximum.reduce(array, axis=axis)
        return largest


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

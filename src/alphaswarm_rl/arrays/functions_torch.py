"""The array functions that parts of an environment may use, on torch tensors under NumPy's names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

Shape = int | Sequence[int]


@contextmanager
def float64_by_default() -> Iterator[None]:
    """While it lasts, whole numbers and Python's numbers become float64, as in NumPy, and not float32.

    It is torch's default type that is changed, and put back: one of the process, not of the thread.
    """
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


class TorchArrays:
    """NumPy's functions for tensors on one device; what they mean is NumPy's.

    Made for use inside `float64_by_default`.

    Args:
        device: Where new tensors are.
    """

    inf = float("inf")
    nan = float("nan")
    float32 = torch.float32
    float64 = torch.float64
    int64 = torch.int64
    bool_ = torch.bool

    abs = staticmethod(torch.abs)
    sqrt = staticmethod(torch.sqrt)
    log = staticmethod(torch.log)
    log1p = staticmethod(torch.log1p)
    exp = staticmethod(torch.exp)
    expm1 = staticmethod(torch.expm1)
    sign = staticmethod(torch.sign)
    floor = staticmethod(torch.floor)
    trunc = staticmethod(torch.trunc)
    isfinite = staticmethod(torch.isfinite)
    isnan = staticmethod(torch.isnan)
    maximum = staticmethod(torch.maximum)
    minimum = staticmethod(torch.minimum)
    zeros_like = staticmethod(torch.zeros_like)

    def __init__(self, device: torch.device | str) -> None:
        self.device = torch.device(device)

    def zeros(self, shape: Shape, dtype: torch.dtype = torch.float64) -> Tensor:
        """Zeros."""
        return torch.zeros(shape, dtype=dtype, device=self.device)

    def ones(self, shape: Shape, dtype: torch.dtype = torch.float64) -> Tensor:
        """Ones."""
        return torch.ones(shape, dtype=dtype, device=self.device)

    def full(self, shape: Shape, value: Any, dtype: torch.dtype | None = None) -> Tensor:
        """The same number everywhere."""
        return torch.full((shape,) if isinstance(shape, int) else shape, value, dtype=dtype, device=self.device)

    def arange(self, *bounds: int, dtype: torch.dtype | None = None) -> Tensor:
        """Numbers in a row."""
        return torch.arange(*bounds, dtype=dtype, device=self.device)

    def where(self, condition: Tensor, yes: Any, no: Any) -> Tensor:
        """One or the other."""
        return torch.where(condition, yes, no)

    def clip(self, array: Tensor, low: Any, high: Any) -> Tensor:
        """Between two bounds: numbers, tensors, or None for no bound."""
        if isinstance(low, Tensor) == isinstance(high, Tensor):
            return torch.clamp(array, low, high)
        # Torch wants both bounds of one sort.
        above = array if low is None else torch.clamp(array, min=low)
        return above if high is None else torch.clamp(above, max=high)

    def sum(self, array: Tensor, axis: int = -1, keepdims: bool = False) -> Tensor:
        """The sum along an axis."""
        return torch.sum(array, dim=axis, keepdim=keepdims)

    def mean(self, array: Tensor, axis: int | None = None, keepdims: bool = False) -> Tensor:
        """The mean."""
        numbers = array if array.is_floating_point() else array.double()
        return torch.mean(numbers) if axis is None else torch.mean(numbers, dim=axis, keepdim=keepdims)

    def cumsum(self, array: Tensor, axis: int) -> Tensor:
        """Sums up to each place."""
        return torch.cumsum(array, dim=axis)

    def any(self, array: Tensor, axis: int | None = None, keepdims: bool = False) -> Tensor:
        """Whether one is true."""
        return torch.any(array) if axis is None else torch.any(array, dim=axis, keepdim=keepdims)

    def all(self, array: Tensor, axis: int | None = None, keepdims: bool = False) -> Tensor:
        """Whether all are true."""
        return torch.all(array) if axis is None else torch.all(array, dim=axis, keepdim=keepdims)

    def stack(self, arrays: Sequence[Tensor], axis: int = 0) -> Tensor:
        """Along a new axis."""
        return torch.stack(list(arrays), dim=axis)

    def concatenate(self, arrays: Sequence[Tensor], axis: int = 0) -> Tensor:
        """One after the other."""
        return torch.cat(list(arrays), dim=axis)

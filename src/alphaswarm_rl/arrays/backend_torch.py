"""The torch backend: tensors on any device under NumPy's function names, and reads of table rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from types import ModuleType
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from alphaswarm_rl.core.types import Array

Shape = int | Sequence[int]
#: A bound of `clip`: a number, a tensor, or None for no bound.
Bound: TypeAlias = Tensor | float | None


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

    def full(self, shape: Shape, value: float, dtype: torch.dtype | None = None) -> Tensor:
        """The same number everywhere."""
        return torch.full((shape,) if isinstance(shape, int) else shape, value, dtype=dtype, device=self.device)

    def arange(self, *bounds: int, dtype: torch.dtype | None = None) -> Tensor:
        """Numbers in a row."""
        return torch.arange(*bounds, dtype=dtype, device=self.device)

    def where(self, condition: Tensor, yes: Tensor | float, no: Tensor | float) -> Tensor:
        """One or the other."""
        return torch.where(condition, yes, no)

    def by_row(self, chosen: Tensor, yes: Tensor | bool, no: Tensor) -> Tensor:
        """One or the other by row, as `chosen` (n,) says; `yes` may be a number or of one row."""
        return torch.where(chosen.reshape(-1, *[1] * (no.dim() - 1)), yes, no)

    def clip(self, array: Tensor, low: Bound, high: Bound) -> Tensor:
        """The array, cut to [low, high]."""
        if isinstance(low, Tensor) == isinstance(high, Tensor):
            return torch.clamp(array, low, high)
        # Torch wants both bounds of one sort.
        above = array if low is None else torch.clamp(array, min=low)
        return above if high is None else torch.clamp(above, max=high)

    def sum(self, array: Tensor, axis: int = -1, keepdims: bool = False) -> Tensor:
        """The sum along an axis."""
        return torch.sum(array, dim=axis, keepdim=keepdims)

    def max(self, array: Tensor, axis: int = -1) -> Tensor:
        """The largest along an axis."""
        return torch.amax(array, dim=axis)

    def sort(self, array: Tensor, axis: int = -1) -> Tensor:
        """The smallest first along an axis."""
        return torch.sort(array, dim=axis).values

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


class TorchBackend:
    """Torch on one device; `backend.Backend` says what its methods do.

    On an NVIDIA GPU with Triton, rows are copied by kernels that write straight into the observation.

    Args:
        device: Where all tensors are.

    Attributes:
        only: Environments whose rows matter, (n,) bool; None: all. The others may be left as they are.
    """

    def __init__(self, device: torch.device | str) -> None:
        self.device = torch.device(device)
        self.xp = TorchArrays(self.device)
        self.only: Tensor | None = None
        self._kernels: ModuleType | None = None
        if self.device.type == "cuda" and find_spec("triton") is not None:
            from alphaswarm_rl.arrays import gather_triton

            self._kernels = gather_triton

    def put(self, array: Array) -> Tensor:
        """A copy on the device."""
        return torch.tensor(np.ascontiguousarray(array), device=self.device)

    def take(self, table: Tensor, bar: Tensor, out: Tensor) -> None:
        """Writes row `bar[i]` to `out[i]`."""
        if self._kernels is not None:
            self._kernels.take_rows(table, bar, out, self.only)
        else:
            out[...] = table[bar]

    def take_columns(self, table: Tensor, bar: Tensor, columns: Tensor, out: Tensor) -> None:
        """Writes those columns of row `bar[i]` to `out[i]`."""
        if self._kernels is not None:
            self._kernels.take_columns(table, bar, columns, out, self.only)
        else:
            out[...] = table[bar[:, None], columns]

    def take_window(self, table: Tensor, bar: Tensor, length: int, out: Tensor) -> None:
        """Writes the `length` rows up to `bar[i]`, oldest first, to `out[i]`, (n, length * C)."""
        if self._kernels is not None:
            self._kernels.take_rows(table, bar, out, self.only, back=length - 1)
        else:
            rows = bar[:, None] + torch.arange(1 - length, 1, device=self.device)
            out[...] = table[rows].reshape(len(bar), -1)

    def take_growth(self, table: Tensor, bar: Tensor, start: Tensor, out: Tensor) -> None:
        """Writes row `bar[i]` over row `start[i]` minus 1 to `out[i]`; 0 where the latter is not positive."""
        if self._kernels is not None:
            self._kernels.take_growth(table, bar, start, out, self.only)
            return
        first = table[start]
        known = first > 0
        out[...] = torch.where(known, table[bar] / torch.where(known, first, 1.0) - 1.0, 0.0)

    def take_weights(
        self, positions: Tensor, prices: Tensor, bar: Tensor, value: Tensor, out: Tensor, cash: Tensor | None = None
    ) -> None:
        """Writes positions (n, C) times row `bar[i]` of the prices over the value (n,) to `out`; 0 without value."""
        if self._kernels is not None:
            self._kernels.take_weights(positions, prices, bar, value, out, self.only, cash)
            return
        if cash is not None:
            out[:, 0] = cash / torch.where(value > 0, value, torch.inf)
            out = out[:, 1:]
        per_unit = torch.where(value > 0, 1.0 / torch.where(value > 0, value, 1.0), 0.0)
        out[...] = positions * prices[bar] * per_unit[:, None]

    def take_deviation(self, table: Tensor, bar: Tensor, length: int, weights: Tensor, out: Tensor) -> None:
        """Writes the sample standard deviation of weighted sums of the `length` rows up to `bar[i]`."""
        rows = bar[:, None] + torch.arange(1 - length, 1, device=self.device)
        out[...] = torch.std((table[rows] * weights[:, None, :]).sum(-1), dim=-1, correction=1)

    def keep(self, chosen: Tensor, bar: Tensor, out: Tensor) -> None:
        """Writes 0 to `out[i]` where row `bar[i]` is false."""
        out[...] = torch.where(chosen[bar], out, 0.0)

    def limit_each(self, most: float, out: Tensor) -> None:
        """Cuts every number to [-most, most]."""
        out[...] = torch.clamp(out, -most, most)

    def limit_sum(self, most: float, out: Tensor) -> None:
        """Scales each row so that its numbers sum to at most `most`, whatever their signs."""
        total = out.abs().sum(-1)
        out[...] = out * torch.where(total > most, most / torch.where(total > most, total, 1.0), 1.0)[:, None]

    def softmax(self, chosen: Tensor | None, bar: Tensor, factor: float, out: Tensor) -> None:
        """Replaces `out[i]` by the softmax of `factor` times it over what row `bar[i]` chooses; None chooses all."""
        scores = out * factor
        if chosen is None:
            out[...] = torch.softmax(scores, dim=-1)
            return
        taken = chosen[bar]
        found = torch.softmax(torch.where(taken, scores, -torch.inf), dim=-1)
        # Where nothing is chosen there is nothing to share.
        out[...] = torch.where(taken, found, 0.0)

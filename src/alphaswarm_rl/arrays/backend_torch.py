"""Torch as the arrays of an environment, on any device."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor

from alphaswarm_rl.arrays.functions_torch import TorchArrays


class TorchBackend:
    """Torch on one device; see `backend.Backend`.

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
        self._kernels: Any = None
        if self.device.type == "cuda" and find_spec("triton") is not None:
            from alphaswarm_rl.arrays import gather_triton as kernels_triton_gather

            self._kernels = kernels_triton_gather

    def put(self, array: np.ndarray[Any, Any]) -> Tensor:
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

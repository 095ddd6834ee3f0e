"""Functions of tensors that are compiled by torch where that can be done, and run as they are where not."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from importlib.util import find_spec

import torch
from torch import Tensor

Function = Callable[..., tuple[Tensor, ...]]


class CompiledFunction:
    """A function of tensors, compiled on its first call; where that fails it runs as it is, and says so once.

    It is recorded first, operation by operation, and the record is compiled: so the function may be any Python, and the
    compiler sees tensors alone. Tensors of other shapes than the first ones run uncompiled.

    Args:
        function: Of tensors.
        device: Where the tensors are.
        enabled: Whether to compile; None: on a GPU.
        name: What a warning calls it where it cannot be compiled.

    Attributes:
        compiles: Whether it is compiled, or will be.
    """

    def __init__(self, function: Function, device: torch.device, *, enabled: bool | None, name: str) -> None:
        self._name = name
        self.compiles = _can_compile(device, enabled, name)
        self._function = function
        self._compiled: dict[tuple[torch.dtype, ...], tuple[list[torch.Size], Function]] = {}

    def __call__(self, tensors: list[Tensor]) -> tuple[Tensor, ...]:
        """The results."""
        if not self.compiles:
            return self._function(*tensors)
        key, shapes = tuple(tensor.dtype for tensor in tensors), [tensor.shape for tensor in tensors]
        if key in self._compiled:
            known, compiled = self._compiled[key]
            return compiled(*tensors) if shapes == known else self._function(*tensors)
        try:
            compiled = _compiled(self._function, tensors)
            self._compiled[key] = shapes, compiled
            return compiled(*tensors)
        except Exception as error:  # noqa: BLE001  a compiler may raise anything; what is wrong with the call shows below
            self.compiles = False
            _warn_uncompiled(self._name, f"{type(error).__name__}: {error}")
            return self._function(*tensors)


def _can_compile(device: torch.device, enabled: bool | None, name: str) -> bool:
    if enabled is False or (enabled is None and device.type != "cuda"):
        return False
    if device.type == "cuda" and find_spec("triton") is None:
        _warn_uncompiled(name, "there is no triton")
        return False
    if not any(shutil.which(name) for name in ("c++", "g++", "clang++", "gcc", "cc", "clang")):
        _warn_uncompiled(name, "there is no C++ compiler")
        return False
    return True


def _warn_uncompiled(name: str, reason: str) -> None:
    warnings.warn(f"{name} is not compiled and runs slower: {reason}", stacklevel=3)


def _compiled(function: Function, tensors: list[Tensor]) -> Function:
    from torch.fx.experimental.proxy_tensor import make_fx

    # On copies: it is run while it is recorded, and may write into what it is given.
    graph = make_fx(function)(*(tensor.clone() for tensor in tensors))
    # Kernels are chosen by rule and not by how fast they are today: another process would round differently.
    compiled: Function = torch.compile(graph, fullgraph=True, dynamic=False, options={"deterministic": True})
    return compiled

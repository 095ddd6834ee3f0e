"""A function of tensors that is compiled where it can be."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

Function = Callable[..., tuple[Tensor, ...]]


class CompiledFunction:
    """A function of tensors, compiled on its first call; where that fails it runs as it is, and says so once.

    It is recorded first, operation by operation, and the record is compiled: so the function may be any Python, and the
    compiler sees tensors alone. Shapes must be the same in each call.

    Args:
        function: Takes a flag, whether the last tensor is storage for the first result, and the tensors.
        device: Where the tensors are.
        wanted: Whether to compile; None: on a GPU.

    Attributes:
        compiles: Whether it is compiled, or will be.
    """

    def __init__(self, function: Function, device: torch.device, *, wanted: bool | None) -> None:
        self.compiles = _can_compile(device, wanted)
        self._function = function
        self._device = device
        self._compiled: dict[tuple[bool, tuple[torch.dtype, ...]], Function] = {}

    def __call__(self, given: bool, tensors: list[Tensor]) -> tuple[Tensor, ...]:
        """The results."""
        plain = partial(self._function, given)
        if not self.compiles:
            return plain(*tensors)
        key = (given, tuple(tensor.dtype for tensor in tensors))
        if key in self._compiled:
            return self._compiled[key](*tensors)
        try:
            self._compiled[key] = _compiled(plain, tensors, _options(self._device, given))
            return self._compiled[key](*tensors)
        except Exception as error:  # noqa: BLE001  a compiler may raise anything; what is wrong with the call shows below
            self.compiles = False
            _say_plain(f"{type(error).__name__}: {error}")
            return plain(*tensors)


def _can_compile(device: torch.device, wanted: bool | None) -> bool:
    if wanted is False or (wanted is None and device.type != "cuda"):
        return False
    if device.type == "cuda" and find_spec("triton") is None:
        _say_plain("there is no triton")
        return False
    if not any(shutil.which(name) for name in ("c++", "g++", "clang++", "gcc", "cc", "clang")):
        _say_plain("there is no C++ compiler")
        return False
    return True


def _say_plain(reason: str) -> None:
    warnings.warn(f"The step of the environment is not compiled and runs slower: {reason}", stacklevel=3)


def _compiled(function: Function, tensors: list[Tensor], options: dict[str, Any] | None) -> Function:
    from torch.fx.experimental.proxy_tensor import make_fx

    graph = make_fx(function)(*tensors)
    compiled: Function = torch.compile(graph, fullgraph=True, dynamic=False, options=options)
    return compiled


def _options(device: torch.device, given: bool) -> dict[str, Any] | None:
    """What the compiler must know about results put together from pieces: each is written straight to its place.

    Otherwise it may compute every piece at each of their places and choose, which for wide observations takes longer.
    Into storage of the caller's it does that, as the other way would copy the whole.
    """
    if device.type != "cuda" or given:
        return None
    from torch._inductor import list_options

    known = list_options()
    names = ("max_complex_pointwise_cat_inputs", "max_pointwise_cat_inputs")
    return {name: 0 for name in names if name in known}

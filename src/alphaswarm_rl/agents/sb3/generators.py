"""Streams of the global random generators: training and predictions draw from separate ones.

Stable-Baselines3 seeds and draws from the global generators of Python, NumPy and torch. A `Stream` is a private run of
them: inside its scope they continue where the stream left off, outside they are as if nobody had drawn.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np
import torch

from alphaswarm_rl.core.contracts import State
from alphaswarm_rl.core.errors import CheckpointError


@dataclass(frozen=True)
class Generators:
    """Where the global generators stand; None for those that are not of interest."""

    python: tuple[Any, ...] | None
    numpy: tuple[Any, ...] | None
    torch: torch.Tensor
    cuda: torch.Tensor | None

    @classmethod
    def capture(cls, device: torch.device, *, torch_only: bool = False) -> Generators:
        """Reads them; that of the GPU only where it is the device."""
        return cls(
            python=None if torch_only else random.getstate(),
            numpy=None if torch_only else np.random.get_state(),  # type: ignore[arg-type]
            torch=torch.get_rng_state(),
            cuda=torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
        )

    def restore(self, device: torch.device) -> None:
        """Sets the global generators to this state."""
        if self.python is not None:
            random.setstate(self.python)
        if self.numpy is not None:
            np.random.set_state(self.numpy)
        torch.set_rng_state(self.torch)
        if self.cuda is not None:
            torch.cuda.set_rng_state(self.cuda, device)

    def to_state(self) -> State:
        """All of them as arrays and plain data."""
        assert self.python is not None
        assert self.numpy is not None
        version, internal, gauss = self.python
        _, keys, position, has_gauss, cached = self.numpy
        arrays = {
            "python": np.array(internal, dtype=np.uint32),
            "numpy": np.array(keys, dtype=np.uint32),
            "torch": self.torch.numpy().copy(),
        }
        if self.cuda is not None:
            arrays["cuda"] = self.cuda.numpy().copy()
        data = {"python": [version, gauss], "numpy": [int(position), int(has_gauss), float(cached)]}
        return State(arrays, data)

    @classmethod
    def from_state(cls, state: State, device: torch.device) -> Generators:
        """From `to_state`. On a GPU, a state that a CPU wrote leaves the GPU's generator as it is."""
        try:
            version, gauss = state.data["python"]
            position, has_gauss, cached = state.data["numpy"]
            cuda = state.arrays.get("cuda") if device.type == "cuda" else None
            return cls(
                python=(version, tuple(state.arrays["python"].tolist()), gauss),
                numpy=("MT19937", np.array(state.arrays["numpy"]), position, has_gauss, cached),
                torch=torch.from_numpy(np.array(state.arrays["torch"])),
                cuda=None if cuda is None else torch.from_numpy(np.array(cuda)),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(
                "the random generators in a checkpoint",
                f"they cannot be read: {error}",
                "Load a checkpoint that is whole.",
            ) from error


class Stream:
    """A private run of the global generators, entered as a context.

    Its first scope starts with the generators as they are: whoever creates it seeds them inside.

    Args:
        device: Where torch draws.
        torch_only: Whether nothing else draws in its scopes; NumPy's generator takes 70 microseconds to read and set.
    """

    def __init__(self, device: torch.device, *, torch_only: bool = False) -> None:
        self._device = device
        self._torch_only = torch_only
        self._inside: Generators | None = None
        self._outside: Generators | None = None

    def __enter__(self) -> Stream:
        if self._outside is not None:
            raise RuntimeError("a stream is entered twice")
        self._outside = self._capture()
        if self._inside is not None:
            self._inside.restore(self._device)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._inside = self._capture()
        outside, self._outside = self._outside, None
        assert outside is not None
        outside.restore(self._device)

    def _capture(self) -> Generators:
        return Generators.capture(self._device, torch_only=self._torch_only)

    def now(self) -> Generators:
        """Where the stream stands, in or out of its scope."""
        if self._outside is None and self._inside is not None:
            return self._inside
        return self._capture()

    def move_to(self, generators: Generators) -> None:
        """Continues from there."""
        if self._outside is None:
            self._inside = generators
        else:
            generators.restore(self._device)

"""How many CPU threads a verb computes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from alphaswarm_rl.core.blas_threads import Threads, blas_threads


@cache
def _torch() -> Threads:
    import torch

    return Threads(torch.get_num_threads, torch.set_num_threads)


@contextmanager
def cpu_threads(count: int) -> Iterator[None]:
    """Runs NumPy's and torch's products of matrices on that many threads, and puts the numbers back afterwards."""
    with blas_threads(count), _torch().of(count):
        yield

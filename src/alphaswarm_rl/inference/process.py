"""What all runs of one process share: the lock that verbs take, and the number of CPU threads."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache

from alphaswarm_rl.core.blas_threads import Threads, blas_threads

#: One verb at a time in a process: torch's threads and the global generators that Stable-Baselines3 draws from are the
#: process's, and two runs that shared them would not repeat themselves. Runs side by side are processes.
process_lock = threading.RLock()


@cache
def _torch() -> Threads:
    import torch

    return Threads(torch.get_num_threads, torch.set_num_threads)


@contextmanager
def cpu_threads(count: int, *, load_torch: bool = True) -> Iterator[None]:
    """Runs NumPy's and torch's products of matrices on that many threads, and puts the numbers back afterwards.

    Args:
        count: How many threads.
        load_torch: Whether torch is loaded for it; otherwise it counts where somebody has loaded it already.
    """
    torch_threads = _torch().of(count) if load_torch or "torch" in sys.modules else nullcontext()
    with blas_threads(count), torch_threads:
        yield

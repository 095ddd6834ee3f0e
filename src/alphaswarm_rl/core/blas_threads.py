"""How many CPU threads products of matrices take.

The sums of another number of threads round differently, and threads that wait for each other on a busy machine cost
small networks a factor of ten; so whoever computes says how many there are.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController


class Threads:
    """A number of threads that several may ask for at once; it is put back when the last of them is done.

    Args:
        get: Says how many there are.
        put: Makes it so many.
    """

    def __init__(self, get: Callable[[], int], put: Callable[[int], None]) -> None:
        self._get, self._put = get, put
        self._lock = threading.Lock()
        self._asked: list[int] = []
        self._before = 1

    @contextmanager
    def of(self, count: int) -> Iterator[None]:
        """Has that many of them inside."""
        with self._lock:
            if not self._asked:
                self._before = self._get()
            self._asked.append(count)
            self._set(count)
        try:
            yield
        finally:
            with self._lock:
                self._asked.remove(count)
                self._set(self._asked[-1] if self._asked else self._before)

    def _set(self, count: int) -> None:
        if self._get() != count:
            self._put(count)


@cache
def _libraries() -> tuple[Threads, ...]:
    # Looking which there are takes a millisecond.
    found = ThreadpoolController().select(user_api="blas").lib_controllers
    return tuple(Threads(library.get_num_threads, library.set_num_threads) for library in found)


@contextmanager
def blas_threads(count: int) -> Iterator[None]:
    """Runs NumPy's products of matrices on that many threads, and puts the number back afterwards."""
    with ExitStack() as stack:
        for library in _libraries():
            stack.enter_context(library.of(count))
        yield

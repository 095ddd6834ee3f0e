"""Twenty processes that register models at the same moment."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.synchronize import Barrier
from pathlib import Path

from alphaswarm_rl.models import ModelRegistry, NewModel
from tests.models.samples import add, evaluation, new_model, settings_at

SIZE = 20
OWN = 3
PATIENCE = 120

_barrier: Barrier | None = None


class Crowd:
    """Waiting processes; their imports are paid for once."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(SIZE, context, initializer=_join, initargs=(context.Barrier(SIZE),))

    def register(self, url: str, home: Path) -> None:
        """On an empty database: each some models that only it has, and one that all have."""
        shared = new_model(home / "shared")
        for future in [self._pool.submit(_register, url, home, number, shared) for number in range(SIZE)]:
            future.result(PATIENCE)

    def close(self) -> None:
        self._pool.shutdown()


def _join(barrier: Barrier) -> None:
    global _barrier
    _barrier = barrier


def _register(url: str, home: Path, number: int, shared: NewModel) -> None:
    assert _barrier is not None
    _barrier.wait(PATIENCE)
    with ModelRegistry.open(settings_at(url, home)) as registry:
        for step in range(OWN):
            add(registry, home / f"{number}-{step}", 100.0 + number + 100 * step)
        row = registry.register(shared)
        registry.add_evaluation(row.id, evaluation(50.0))

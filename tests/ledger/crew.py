"""Eight processes that do the same thing at the same moment."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.synchronize import Barrier
from typing import TypeVar

from alphaswarm_rl.core.errors import RunError
from tests.ledger.samples import SampleSpec, new_run, open_ledger, segment_ref

SIZE = 8
PATIENCE = 120

T = TypeVar("T")
_barrier: Barrier | None = None


class Crew:
    """Waiting processes; their imports are paid for once."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(SIZE, context, initializer=_join, initargs=(context.Barrier(SIZE),))

    def together(self, task: Callable[[str], T], url: str) -> list[T]:
        """What each of the processes returned."""
        return [future.result(PATIENCE) for future in [self._pool.submit(task, url) for _ in range(SIZE)]]

    def close(self) -> None:
        self._pool.shutdown()


def _join(barrier: Barrier) -> None:
    global _barrier
    _barrier = barrier


def _wait() -> None:
    assert _barrier is not None
    _barrier.wait(PATIENCE)


def start_on_an_empty_database(url: str) -> int:
    _wait()
    with open_ledger(url) as ledger:
        return len(ledger.specs())


def persist_the_same_new_spec(url: str) -> tuple[str, int]:
    """Number n + 1 of one slug, where n versions are there before anybody begins."""
    with open_ledger(url) as ledger:
        before = len(ledger.versions("crew")) if ledger.specs() else 0
        _wait()
        version = ledger.persist_spec(SampleSpec(slug="crew", number=before + 1))
        # Nobody may look for the next round's number before everybody is done with this one.
        _wait()
        return version.id, version.version


def make_a_run(url: str) -> int:
    with open_ledger(url) as ledger:
        _wait()
        return new_run(ledger).number


def claim_the_latest_run(url: str) -> bool:
    with open_ledger(url) as ledger:
        run_id = ledger.run("latest").id
        _wait()
        try:
            ledger.claim_for_resume(run_id)
        except RunError as error:
            if "holds it" not in error.why:
                raise
            won = False
        else:
            won = True
        # The winner must live until everybody has tried: a dead winner's run may be claimed again.
        _wait()
        return won


def sync_components(url: str) -> bool:
    row = {"rl_kind": "agent", "alias": "ppo", "module_path": "m", "class_name": "C", "rl_version": 1}
    with open_ledger(url) as ledger:
        _wait()
        return ledger.sync_components([row], "one")


def add_one_ref_of_the_latest_run(url: str) -> None:
    with open_ledger(url) as ledger:
        run_id = ledger.run("latest").id
        _wait()
        ledger.add_refs([segment_ref(run_id, 0)])

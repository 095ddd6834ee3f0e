"""A log handler without a lock."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Any, cast


class _NoLock:
    """Looks like a lock, and keeps nobody out."""

    def acquire(self) -> bool:
        """Whoever wants it has it."""
        return True

    def release(self) -> None:
        """Nobody waits for it."""

    def __enter__(self) -> bool:
        return True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


class LocklessHandler(logging.Handler):
    """For handlers whose `emit` is safe without a lock: two that log to each other would wait for ever."""

    def createLock(self) -> None:  # noqa: N802  (logging's name)
        """Not None, which older versions of `logging` take too: newer ones enter the lock without a look."""
        self.lock = cast(Any, _NoLock())

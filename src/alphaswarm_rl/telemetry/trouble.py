"""Problems of telemetry never fail a run: one warning is logged, and the run goes on."""

from __future__ import annotations

import logging
import threading
from contextlib import nullcontext
from typing import Any, cast

_log = logging.getLogger(__name__)

#: Loggers of OpenTelemetry on which a failed delivery is reported.
_LOGGERS = ("opentelemetry.exporter", "opentelemetry.sdk")

_open: list[Trouble] = []
_lock = threading.Lock()


class Trouble:
    """The first problem of one run's telemetry; OpenTelemetry's own log lines count too, until `close`."""

    def __init__(self) -> None:
        self.first: str | None = None
        _Listener.listen()
        _open.append(self)

    def warn(self, what: str) -> None:
        """Logs a warning, once per run: an endpoint that is down would fill the screen."""
        with _lock:
            if self.first is not None:
                return
            self.first = what
        _log.warning("telemetry has trouble, and the run goes on: %s", what)

    def close(self) -> None:
        """Stops listening to OpenTelemetry's log lines."""
        _open.remove(self)


class _NoLock(nullcontext[None]):
    """A lock that never locks, for handlers that need none."""

    def acquire(self) -> bool:
        """Always succeeds."""
        return True

    def release(self) -> None:
        """Does nothing."""


class LocklessHandler(logging.Handler):
    """For handlers whose `emit` is safe without a lock: two that log to each other would wait for ever."""

    def createLock(self) -> None:  # noqa: N802  (logging's name)
        """Sets a lock that never locks: newer versions of `logging` enter it without checking for None."""
        self.lock = cast(Any, _NoLock())


class _Listener(LocklessHandler):
    """Hears of failed exports: exporters report them only as log lines."""

    _one: _Listener | None = None

    @classmethod
    def listen(cls) -> None:
        """Once per process, and for good: a request that nobody waits for any more may fail after its run."""
        with _lock:
            if cls._one is None:
                cls._one = cls(logging.WARNING)
                for name in _LOGGERS:
                    logger = logging.getLogger(name)
                    # Somebody who has set up these loggers wants to read them.
                    logger.propagate = logger.propagate and bool(logger.handlers or logger.level)
                    logger.addHandler(cls._one)

    def emit(self, record: logging.LogRecord) -> None:
        """Reports the failure to every run whose telemetry is open."""
        for trouble in tuple(_open):
            trouble.warn(record.getMessage())

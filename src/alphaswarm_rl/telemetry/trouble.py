"""Trouble of telemetry is never the run's: it is told once, and the run goes on."""

from __future__ import annotations

import logging
import threading

from alphaswarm_rl.telemetry.lockless import LocklessHandler

_log = logging.getLogger(__name__)

#: Whoever of OpenTelemetry says that something could not be delivered.
_TALKERS = ("opentelemetry.exporter", "opentelemetry.sdk")

_open: list[Trouble] = []
_lock = threading.Lock()


class Trouble:
    """The trouble of one run's telemetry; as long as it is listened for, OpenTelemetry's own words count too."""

    def __init__(self) -> None:
        self.told: str | None = None
        _Listener.listen()
        _open.append(self)

    def tell(self, what: str) -> None:
        """Warns of it, unless there was a warning already: an endpoint that is down would fill the screen."""
        with _lock:
            if self.told is not None:
                return
            self.told = what
        _log.warning("telemetry has trouble, and the run goes on: %s", what)

    def close(self) -> None:
        """Listens no longer."""
        _open.remove(self)


class _Listener(LocklessHandler):
    """Hears the exporters, which know a failure only as a log line."""

    _one: _Listener | None = None

    @classmethod
    def listen(cls) -> None:
        """Once per process, and for good: a request that nobody waits for any more may fail after its run."""
        with _lock:
            if cls._one is None:
                cls._one = cls(logging.WARNING)
                for name in _TALKERS:
                    talker = logging.getLogger(name)
                    # Somebody who has set up these loggers wants to read them.
                    talker.propagate = talker.propagate and bool(talker.handlers or talker.level)
                    talker.addHandler(cls._one)

    def emit(self, record: logging.LogRecord) -> None:
        """Passes it on."""
        for trouble in tuple(_open):
            trouble.tell(record.getMessage())

"""Halting: the kill switch, signals and the heartbeat, watched by one thread beside the loop."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from alphaswarm_rl.core.errors import RunError
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.settings import LedgerSettings

_log = logging.getLogger(__name__)

#: Seconds that the end of a run waits for its watcher.
_JOIN_SECONDS = 5.0


class HaltWatcher:
    """Polls the kill switch and beats the heart of a run; the loop reads one flag.

    Args:
        ledger: Where the kill switch lives.
        run_id: The run to watch for.
        settings: How often to look, and how long silence is borne.
        checks: How often the run asked before it was resumed.
    """

    def __init__(self, ledger: Ledger, run_id: str, settings: LedgerSettings, *, checks: int = 0) -> None:
        self.checks = checks
        self.reason: str | None = None
        self._ledger = ledger
        self._run_id = run_id
        self._settings = settings
        self._answered = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name=f"halt-watcher-{run_id[:8]}", daemon=True)

    def should_halt(self) -> bool:
        """Whether the loop must stop; counts how often it was asked.

        Silence is measured here, by the loop itself: the watcher may hang in a database that does not answer.
        """
        self.checks += 1
        if self.reason is None:
            silence = time.monotonic() - self._answered
            if silence >= self._settings.halt_silence_seconds:
                self.request(f"the kill switch gave no answer for {silence:.0f} s")
        return self.reason is not None

    def request(self, reason: str | None) -> None:
        """Asks the loop to stop where there is a reason; the first one stays."""
        if self.reason is None:
            self.reason = reason

    def __enter__(self) -> HaltWatcher:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stop.set()
        self._thread.join(timeout=_JOIN_SECONDS)  # it is a daemon: one that hangs in a database is left behind

    def _watch(self) -> None:
        beaten = time.monotonic()
        while not self._stop.wait(self._settings.halt_poll_seconds):
            try:
                reason = self._ledger.halt_reason(self._run_id)
                if time.monotonic() - beaten >= self._settings.heartbeat_seconds:
                    self._ledger.heartbeat(self._run_id)
                    beaten = time.monotonic()
            except RunError as error:  # another process holds the run now
                self.request(str(error))
                return
            except Exception as error:  # noqa: BLE001  no answer, for whatever reason: `should_halt` counts the silence
                _log.warning("the kill switch does not answer: %s", error)
                continue
            self._answered = time.monotonic()
            if reason is not None:
                self.request(f"kill switch: {reason}")


@contextmanager
def halt_on_signals(watcher: HaltWatcher) -> Iterator[None]:
    """Turns SIGTERM and the first Ctrl-C into a halt; the second Ctrl-C interrupts at once."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may handle signals; whoever runs us in another one handles them
        return

    def halt(number: int, frame: FrameType | None) -> None:
        if watcher.reason is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        watcher.request(f"signal {signal.Signals(number).name}")

    before = {number: signal.signal(number, halt) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

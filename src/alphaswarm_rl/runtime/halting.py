"""Halting a run: the kill switch, signals, and a heart that no longer beats."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from alphaswarm_rl.core.errors import RunError
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.ledger.brake import Brake
from alphaswarm_rl.settings import LedgerSettings

_log = logging.getLogger(__name__)

#: Seconds that the end of a run waits for its watcher.
_JOIN_SECONDS = 5.0


class HaltWatcher:
    """Looks at the kill switch for a run, and beats its heart.

    Args:
        ledger: Where the kill switch lives.
        run_ids: The run to watch for, and the one whose policy it plays.
        settings: How often to look, and how long silence is borne.
        checks: How often the run asked before it was resumed.
    """

    def __init__(self, ledger: Ledger, run_ids: Sequence[str], settings: LedgerSettings, *, checks: int = 0) -> None:
        self.checks = checks
        self.reason: str | None = None
        self._lost: RunError | None = None
        self._ledger = ledger
        self._run_id, self._run_ids = run_ids[0], run_ids
        self._settings = settings
        self._brake = Brake(ledger, settings)
        self._beaten = time.monotonic()
        self._longest_pause = settings.heartbeat_seconds + settings.halt_silence_seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name=f"heartbeat-{run_ids[0][:8]}", daemon=True)

    def should_halt(self) -> bool:
        """Whether the loop must stop; counts how often it was asked.

        Silence is measured here, by the loop itself: whoever asks the database may hang in it.

        Raises:
            RunError: Another process holds the run now.
        """
        self.checks += 1
        if self._lost is not None:
            raise self._lost
        if self.reason is None:
            stop = next((stop for run_id in self._run_ids if (stop := self._brake.look(run_id))), None)
            if stop is not None:
                self.request(stop.reason)
            elif time.monotonic() - self._beaten >= self._longest_pause:
                self.request(f"no heartbeat could be written for {time.monotonic() - self._beaten:.0f} s")
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
        self._brake.close()
        self._thread.join(timeout=_JOIN_SECONDS)  # it is a daemon: one that hangs in a database is left behind

    def _beat(self) -> None:
        while not self._stop.wait(self._settings.halt_poll_seconds):
            if time.monotonic() - self._beaten < self._settings.heartbeat_seconds:
                continue
            try:
                self._ledger.heartbeat(self._run_id)
            except RunError as error:  # another process holds the run now
                self._lost = error
                return
            except Exception as error:  # noqa: BLE001  for whatever reason: `should_halt` counts how long
                _log.warning("no heartbeat can be written: %s", error)
                continue
            self._beaten = time.monotonic()


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

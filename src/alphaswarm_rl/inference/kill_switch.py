"""The kill switch as a server checks it: now and then, by one of its threads at a time."""

from __future__ import annotations

import logging
import threading
import time

from alphaswarm_rl.core.errors import RunError
from alphaswarm_rl.ledger import Ledger

_log = logging.getLogger(__name__)


class KillSwitch:
    """What the kill switch said last. One that does not answer changes nothing, and the log says so.

    Args:
        ledger: Where the kill switch lives; the caller closes it.
        seconds: Least seconds between two checks.
    """

    def __init__(self, ledger: Ledger, seconds: float) -> None:
        self._ledger, self._seconds = ledger, seconds
        self._checking = threading.Lock()
        self._checked_at = time.monotonic()
        self._engaged: RunError | None = None
        self._silent = False

    def check(self) -> None:
        """Asks the ledger, unless somebody did a moment ago or does right now."""
        if time.monotonic() - self._checked_at < self._seconds or not self._checking.acquire(blocking=False):
            return
        try:
            engaged = None
            try:
                self._ledger.refuse_if_halted()
            except RunError as error:
                engaged = error
            self._engaged, self._silent = engaged, False
        except Exception as error:  # noqa: BLE001  whatever keeps it from answering
            if not self._silent:
                _log.error("the kill switch does not answer, what it said last counts: %s", error)
            self._silent = True
        finally:
            self._checked_at = time.monotonic()
            self._checking.release()

    def refuse(self) -> None:
        """Raises what `PolicyServer.open` does while the kill switch is engaged, as far as it was checked."""
        engaged = self._engaged
        if engaged is not None:
            raise RunError(engaged.what, engaged.why, engaged.remedy)

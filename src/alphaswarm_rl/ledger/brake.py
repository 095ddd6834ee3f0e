"""The kill switch as loops and servers see it: looked at for every step and every answer.

One thread asks the ledger, again and again. Whoever steps or answers calls `look`, which mostly compares two numbers;
a few times a second it reads the files beside the ledger itself, so that no halt waits behind a question that hangs.
What the ledger said counts for a second at most: then `look` waits for the thread, once, and afterwards silence counts.
Silence of `halt_silence_seconds` stops everything.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from alphaswarm_rl.core.errors import LedgerError, RunError
from alphaswarm_rl.ledger.halt_scopes import EVERYTHING, bot_scope
from alphaswarm_rl.ledger.halts import refusal
from alphaswarm_rl.ledger.ledger import Ledger
from alphaswarm_rl.ledger.rows import HaltRow
from alphaswarm_rl.settings import LedgerSettings

_log = logging.getLogger(__name__)

#: Seconds that what the ledger said counts for.
FRESH_SECONDS = 1.0
#: Most seconds between two questions, whatever the settings say: an answer must be there before the last one is old.
_LONGEST_POLL = 0.5
#: Seconds that a question waits for the write lock, to record a halt that is only a file.
_PATIENCE = 0.1
#: Seconds that `close` waits for a question.
_JOIN_SECONDS = 5.0


@dataclass(frozen=True)
class Stop:
    """Why nothing may be stepped or answered.

    Attributes:
        reason: As the row of a run says it.
        error: As whoever asks for an answer gets it.
    """

    reason: str
    error: RunError


class Brake:
    """What the kill switch says now; any number of threads may look.

    Args:
        ledger: Where the kill switch lives; the caller closes it.
        settings: How often to ask, and how long silence is borne.
        poll_seconds: Seconds between two questions; None: as the settings say. Never more than half a second.
        bot: The bot in whose name the callers work: its halt stops them as well; None: they work for none.

    Raises:
        LedgerError: The ledger does not answer the first question.
    """

    def __init__(
        self, ledger: Ledger, settings: LedgerSettings, *, poll_seconds: float | None = None, bot: str | None = None
    ) -> None:
        self._ledger, self._files = ledger, ledger.halt_files
        self._poll = min(settings.halt_poll_seconds if poll_seconds is None else poll_seconds, _LONGEST_POLL)
        self._silence_limit = settings.halt_silence_seconds
        self._scopes = (EVERYTHING,) if bot is None else (EVERYTHING, bot_scope(bot))
        self._news = threading.Condition()
        self._looking = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        #: What holds by its file alone: kept until the ledger knows of it, whatever becomes of the file.
        self._latched: dict[str, HaltRow] = {}
        self._settled: set[tuple[str, datetime]] = set()
        self._halts: Mapping[str, HaltRow] = {}
        self._trouble: Exception | None = None
        self._outage: Stop | None = None
        self._ledger_id = ledger.id
        self._asked = time.monotonic()
        self._ask()
        self._due = self._asked

    def look(self, run_id: str | None = None) -> Stop | None:
        """Why this run must stop, or may not answer; None where it may.

        Args:
            run_id: The run that steps, or whose policy answers; None: no halt of a run concerns the caller.
        """
        if time.monotonic() >= self._due:
            self._look()
        if not self._halts and self._outage is None:
            return None
        scopes = self._scopes if run_id is None else (*self._scopes, run_id)
        halt = next((halt for scope in scopes if (halt := self._halts.get(scope)) is not None), None)
        return self._outage if halt is None else Stop(f"kill switch: {halt.reason}", refusal(halt))

    def refuse(self, run_id: str | None = None) -> None:
        """Raises the error of an answer that may not be given.

        Raises:
            RunError: The kill switch is engaged, or has been silent for too long.
        """
        stop = self.look(run_id)
        if stop is not None:
            raise RunError(*stop.error.args)  # anew: one that is raised again and again would keep every traceback

    def close(self) -> None:
        """Ends the questions; one that hangs in a database is left behind."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout=_JOIN_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _look(self) -> None:
        """Reads the files, and sees to it that the ledger is asked and what it said is fresh."""
        with self._looking:
            now = time.monotonic()
            if now < self._due:
                return
            try:
                self._latch()
            except LedgerError as error:  # files that cannot be looked at are silence, as a ledger that does not answer
                self._report_trouble(error)
            if self._thread is None or not self._thread.is_alive():  # it is in no child of a fork
                self._thread = threading.Thread(target=_keep_asking, args=(weakref.ref(self),), daemon=True)
                self._thread.name = "alphaswarm-rl-brake"
                self._thread.start()
            with self._news:
                if now - self._asked > FRESH_SECONDS and self._trouble is None:
                    fresh = self._news.wait_for(lambda: self._asked > now or self._trouble is not None, FRESH_SECONDS)
                    if not fresh:
                        self._report_trouble(TimeoutError("the question hangs"))
                now = time.monotonic()
                silence, limit = now - self._asked, self._silence_limit
                if silence >= limit:
                    self._outage = _silence(silence, self._trouble)
                until = FRESH_SECONDS if self._trouble is None else limit
                self._due = now + self._poll if silence >= until else min(now + self._poll, self._asked + until)

    def _latch(self) -> None:
        """Holds on to every halt that is a file and that the ledger has not settled."""
        for halt in self._files.read():
            key = (halt.scope, halt.set_at)
            with self._news:
                if key not in self._settled and self._latched.get(halt.scope) != halt:
                    self._latched[halt.scope] = halt
                    self._halts = {**self._halts, halt.scope: halt}
                    _log.error("halted by the file %s: %s", self._files.path(halt.scope), halt.reason)

    def _ask(self) -> None:
        """Asks the ledger, and records there what only files say."""
        self._refuse_another_ledger()
        self._latch()
        for halt in list(self._latched.values()):
            self._record(halt)
        asked = time.monotonic()
        halts = {halt.scope: halt for halt in self._ledger.halt_status()}
        with self._news:
            self._halts = {**halts, **self._latched}
            self._asked, self._trouble, self._outage = asked, None, None
            self._news.notify_all()

    def _refuse_another_ledger(self) -> None:
        """Stops everything where another ledger was put in the place of this one: it knows nothing of our halts."""
        found = self._ledger.id
        if found == self._ledger_id:
            return
        error = RunError(
            "the kill switch",
            f"another ledger ({found}) is in the place of the one that it was in ({self._ledger_id})",
            "Put the right database back.",
        )
        with self._news:
            self._outage = Stop(str(error), error)
        raise error

    def _record(self, halt: HaltRow) -> None:
        try:
            self._ledger.record_halt(halt, patience=_PATIENCE)
        except LedgerError as error:
            _log.debug("the halt %s is not in the ledger yet: %s", halt.scope, error)
            return
        with self._news:
            self._settled.add((halt.scope, halt.set_at))
            if self._latched.get(halt.scope) == halt:
                del self._latched[halt.scope]

    def _report_trouble(self, error: Exception) -> None:
        """Remembers why there was no answer; the log says it once."""
        with self._news:
            if self._trouble is None:
                _log.error(
                    "the kill switch does not answer, and stops everything in %.0f s: %s", self._silence_limit, error
                )
            self._trouble = error
            self._news.notify_all()


def _silence(seconds: float, trouble: Exception | None) -> Stop:
    why = f"it gave no answer for {seconds:.0f} s" + ("" if trouble is None else f" ({trouble})")
    remedy = "Bring the ledger back; `rl infer --offline` answers without it."
    return Stop(f"the kill switch gave no answer for {seconds:.0f} s", RunError("the kill switch", why, remedy))


def _keep_asking(ref: weakref.ref[Brake]) -> None:
    """Asks until the brake is closed, or nobody has it any more."""
    while (brake := ref()) is not None:
        stopping, poll = brake._stopping, brake._poll
        try:
            brake._ask()
        except Exception as error:  # noqa: BLE001  no answer, for whatever reason: silence is counted
            brake._report_trouble(error)
        del brake
        if stopping.wait(poll):
            return

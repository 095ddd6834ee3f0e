"""The kill switch: halting the platform, a bot or a run, releasing it, looking at it."""

from __future__ import annotations

import getpass
import socket

from alphaswarm_rl.core.errors import LedgerError
from alphaswarm_rl.db.engine import open_engine, sqlite_file
from alphaswarm_rl.db.types import utc_now
from alphaswarm_rl.ledger import HaltLogRow, HaltRow, Ledger
from alphaswarm_rl.ledger.halt_files import HaltFiles, new_halt
from alphaswarm_rl.ledger.halt_scopes import PLATFORM, is_of_run, plain_scope, run_scope
from alphaswarm_rl.operations.data import Data
from alphaswarm_rl.operations.events import NOBODY, Caller, Listener, Notice
from alphaswarm_rl.operations.operation import RequestError, operation
from alphaswarm_rl.settings import Settings

#: Seconds that a halt waits for the ledger's lock before it leaves the row to whoever comes next.
_PATIENCE = 2.0


class HaltRequest(Data):
    """What is halted or released, or what is looked at.

    Attributes:
        run: The run that is meant; None: what `scope` says.
        reason: Why; kept for good.
        release: Whether the halt is ended.
        status: Only shows what is halted now.
        log: Only shows who halted and released what, and why, from the beginning.
        actor: Who does it; None: the user of this process.
        scope: What is meant where no run is named: `platform`, `bot:NAME` or `run:RUN`; None: the platform, everything.
    """

    run: str | None = None
    reason: str | None = None
    release: bool = False
    status: bool = False
    log: bool = False
    actor: str | None = None
    scope: str | None = None

    @property
    def whole_scope(self) -> str:
        """What is meant, by a run or by a scope."""
        return run_scope(self.run) if self.run is not None else self.scope or PLATFORM


class HaltStatus(Data, only="switches"):
    """The switches that are engaged now."""

    switches: tuple[HaltRow, ...]


class HaltLog(Data, only="entries"):
    """Who halted and released what, and why, from the beginning."""

    entries: tuple[HaltLogRow, ...]


@operation("halt", changes=True)
def halt(settings: Settings, request: HaltRequest, *, caller: Caller = NOBODY) -> HaltRow | HaltStatus | HaltLog:
    """Uses the kill switch: runs stop with a checkpoint, nothing is answered, and no run starts until its release.

    Gives the switch that was changed, or what is looked at.

    Args:
        settings: Where the ledger is.
        request: What is done.
        caller: Hears when a file beside the ledger holds the halt, and the ledger's row has to follow.
    """
    _refuse(request)
    actor = request.actor or f"{getpass.getuser()}@{socket.gethostname()}"
    if request.reason is not None and not request.release:
        return _engage(settings, request.whole_scope, request.reason, actor, caller.listen)
    with Ledger.open(settings) as ledger:
        if request.log:
            return HaltLog(tuple(ledger.halt_log()))
        if request.reason is None:
            return HaltStatus(tuple(ledger.halt_status()))
        return ledger.release(request.whole_scope, request.reason, actor)


def _engage(settings: Settings, scope: str, reason: str, actor: str, listen: Listener) -> HaltRow:
    """Halts by a file, where the ledger is one, and then in the ledger, which may be locked, or cannot be opened."""
    files = HaltFiles(sqlite_file(open_engine(settings.database_url)))
    plain = plain_scope(scope)
    halt = None if is_of_run(plain) else _file_at_once(files, plain, reason, actor)
    try:
        with Ledger.open(settings) as ledger:
            halt = ledger.declare_halt(scope, reason, actor, filed=halt)
            return ledger.record_halt(halt, patience=_PATIENCE)
    except LedgerError as error:
        path = None if halt is None else files.path(halt.scope)
        if halt is None or path is None:
            raise
        listen(Notice(f"the halt holds by the file {path}; the row in the ledger follows as soon as it can: {error}"))
        return halt


def _file_at_once(files: HaltFiles, scope: str, reason: str, actor: str) -> HaltRow | None:
    """The file of a halt that needs no run to be found, before the ledger is opened; None where a server has it."""
    filed = new_halt(scope, reason, actor, utc_now())
    files.write(filed)
    return None if files.path(scope) is None else filed


def _refuse(request: HaltRequest) -> None:
    """Refuses what does not go together."""
    looks = request.status or request.log
    named = request.run is not None or request.scope is not None
    changes = request.release or named or request.reason is not None
    if (request.status and request.log) or (looks and changes):
        raise RequestError("--status and --log go alone, with no RUN, --scope, --release or --reason")
    if request.run is not None and request.scope is not None:
        raise RequestError("RUN and --scope both name what is meant; give one of them")
    if request.scope == "":
        raise RequestError("--scope is empty; leave it out to halt or release everything")
    if request.run == "":
        raise RequestError("RUN is empty; leave it out to halt or release everything")
    if not looks and request.reason is None:
        raise RequestError("Missing option '--reason'")

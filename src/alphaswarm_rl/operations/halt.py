"""The kill switch: halting everything or one run, releasing it, looking at it."""

from __future__ import annotations

import getpass
import socket

from alphaswarm_rl.ledger import HaltLogRow, HaltRow, Ledger
from alphaswarm_rl.ledger.halts import EVERYTHING
from alphaswarm_rl.operations.data import Data
from alphaswarm_rl.operations.operation import RequestError, operation
from alphaswarm_rl.settings import Settings


class HaltRequest(Data):
    """What is halted or released, or what is looked at.

    Attributes:
        run: The run that is meant; None means everything.
        reason: Why; kept for good.
        release: Whether the halt is ended.
        status: Only shows what is halted now.
        log: Only shows who halted and released what, and why, from the beginning.
        actor: Who does it; None: the user of this process.
    """

    run: str | None = None
    reason: str | None = None
    release: bool = False
    status: bool = False
    log: bool = False
    actor: str | None = None


class HaltStatus(Data, only="switches"):
    """The switches that are engaged now."""

    switches: tuple[HaltRow, ...]


class HaltLog(Data, only="entries"):
    """Who halted and released what, and why, from the beginning."""

    entries: tuple[HaltLogRow, ...]


@operation("halt", changes=True)
def halt(settings: Settings, request: HaltRequest) -> HaltRow | HaltStatus | HaltLog:
    """Uses the kill switch: runs stop with a checkpoint, and none starts until the halt is released.

    Gives the switch that was changed, or what is looked at.
    """
    _refuse(request)
    with Ledger.open(settings) as ledger:
        if request.log:
            return HaltLog(tuple(ledger.halt_log()))
        if request.reason is None:
            return HaltStatus(tuple(ledger.halt_status()))
        change = ledger.release if request.release else ledger.engage
        actor = request.actor or f"{getpass.getuser()}@{socket.gethostname()}"
        return change(request.run or EVERYTHING, request.reason, actor)


def _refuse(request: HaltRequest) -> None:
    """Refuses what does not go together."""
    looks = request.status or request.log
    changes = request.release or request.run is not None or request.reason is not None
    if (request.status and request.log) or (looks and changes):
        raise RequestError("--status and --log go alone, with no RUN, --release or --reason")
    if request.run == "":
        raise RequestError("RUN is empty; leave it out to halt or release everything")
    if not looks and request.reason is None:
        raise RequestError("Missing option '--reason'")

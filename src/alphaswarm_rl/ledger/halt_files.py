"""Halts as files beside an SQLite ledger, which hold while another process keeps the database locked.

    <ledger file>.halt             {"scope": "*", "engaged": true, "reason": ..., "set_by": ..., "set_at": ...}
    <ledger file>.<run id>.halt    the same for one run
    <ledger file>.bot-<name>.halt  the same for one bot
    <the same>.aside-<hex>.halt    one that a release was about to remove; it counts like the others

They lie beside the real file, where the ledger is a link. A file is written whole before the ledger's row, and removed
after its release. It counts unless the ledger's log has a release of its scope after its `set_at`: one that was left
behind, or put back, halts nothing again. A file that cannot be read halts everything, or its run: whoever made it meant
a halt.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

from alphaswarm_rl.core.control_characters import refuse_control_characters, refuse_long_reason
from alphaswarm_rl.core.errors import LedgerError
from alphaswarm_rl.core.files import read_regular, replace_synced, sync_folder
from alphaswarm_rl.ledger.halt_scopes import BOT_NAME, file_part, scope_of_file
from alphaswarm_rl.ledger.rows import HaltRow

_END = ".halt"
#: A file of more bytes is none of ours.
_MOST_BYTES = 1 << 20
#: What is dated later was dated by no clock. Clocks that are wrong by years are borne: times in the log only grow.
LATEST = datetime(9000, 1, 1, tzinfo=UTC)
#: The latest time of a file's change that is believed: what follows in the log has room before `LATEST`.
_LATEST_CHANGE = LATEST - timedelta(days=1)


class HaltFiles:
    """The halts that are files beside a ledger; a server's database has none.

    Args:
        ledger: The ledger's file; None where a server has the database.
    """

    def __init__(self, ledger: Path | None) -> None:
        self._ledger = ledger

    def path(self, scope: str) -> Path | None:
        """Where the halt of a scope is written; None beside a server's database."""
        file = self._real_file()
        if file is None:
            return None
        return file.with_name(f"{file.name}{file_part(scope)}{_END}")

    def read(self) -> list[HaltRow]:
        """Every halt that is a file now, the newest of each scope.

        Raises:
            LedgerError: The ledger's folder cannot be looked into.
        """
        newest: dict[str, HaltRow] = {}
        for path, scope in self._paths():
            halt = _read(path, scope)
            if halt is not None and (scope not in newest or halt.set_at > newest[scope].set_at):
                newest[scope] = halt
        return list(newest.values())

    def _real_file(self) -> Path | None:
        # With each look: whoever names the ledger by a link means the file, and the link may be another one now.
        return None if self._ledger is None else Path(os.path.realpath(self._ledger))

    def _paths(self) -> list[tuple[Path, str]]:
        """The files of halts, with their scopes."""
        file = self._real_file()
        if file is None:
            return []
        try:
            with os.scandir(file.parent) as entries:
                names = sorted(entry.name for entry in entries if entry.name.endswith(_END) and not entry.is_dir())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise LedgerError(
                f"the folder {file.parent}",
                f"halts are files in it, and it cannot be looked into: {error.strerror or error}",
                "Check the disk and the rights of the folder.",
            ) from error
        of_scope = re.compile(
            rf"{re.escape(file.name)}(\.([0-9a-f-]{{36}}|bot-{BOT_NAME}))?(\.aside-[0-9a-f]{{32}})?{re.escape(_END)}"
        )
        matches = [match for name in names if (match := of_scope.fullmatch(name)) is not None]
        return [(file.with_name(match[0]), scope_of_file(match[2])) for match in matches]

    def write(self, halt: HaltRow) -> None:
        """Writes a halt, in the place of an earlier one of its scope.

        Raises:
            LedgerError: The file cannot be written.
        """
        path = self.path(halt.scope)
        if path is None:
            return
        try:
            replace_synced(path, (json.dumps(halt.as_dict()) + "\n").encode())
        except OSError as error:
            raise LedgerError(
                f"the file {path}",
                f"it holds the halt, and cannot be written: {error.strerror or error}",
                "Make room or make its folder writable; processes can be stopped with SIGTERM.",
            ) from error

    def remove(self, scope: str, until: datetime) -> None:
        """Removes the halt of a scope, unless it is a newer one than `until`."""
        path = self.path(scope)
        if path is None:
            return
        over = [file for file, of in self._paths() if of == scope and _is_over(file, scope, until)]
        for file in over:
            # Taken aside first: somebody may write a newer one between the look and the removal. That one stays aside,
            # where it counts as well: to bring it back could replace one that is newer still.
            aside = _taken_aside(file) if file == path else file
            if aside is not None and _is_over(aside, scope, until):
                aside.unlink(missing_ok=True)
        if over:
            sync_folder(path.parent)


def new_halt(scope: str, reason: str, actor: str, at: datetime) -> HaltRow:
    """A halt of everything (`*`), of a bot or of a run; one without a reason or an actor is refused."""
    refuse_new(reason, actor)
    return HaltRow(scope, engaged=True, reason=reason, set_by=actor, set_at=at)


def refuse_new(reason: str, actor: str) -> None:
    """Refuses a use of the kill switch that is unfit, or whose reason is too long; one that is kept already may be."""
    refuse_long_reason("the reason of the kill switch", reason, LedgerError)
    refuse_unfit(reason, actor)


def refuse_unfit(reason: str, actor: str) -> None:
    """Refuses a use of the kill switch that does not say in plain text why, and by whom."""
    for name, value in (("reason", reason), ("actor", actor)):
        if not value.strip():
            raise LedgerError(f"the {name} of the kill switch", "it is empty", f"Say the {name}: it is kept for good.")
        refuse_control_characters(f"the {name} of the kill switch", value, LedgerError)


def _taken_aside(path: Path) -> Path | None:
    """Where the file is now; None where somebody else took it."""
    aside = path.with_name(f"{path.name.removesuffix(_END)}.aside-{uuid4().hex}{_END}")
    try:
        return path.rename(aside)
    except FileNotFoundError:
        return None


def _is_over(path: Path, scope: str, until: datetime) -> bool:
    """Whether the file is there, and its halt no newer than `until`."""
    halt = _read(path, scope)
    return halt is not None and halt.set_at <= until


def _read(path: Path, scope: str) -> HaltRow | None:
    """The halt of a file; None where it was removed meanwhile."""
    since = datetime.now(UTC)
    try:
        since = datetime.fromtimestamp(min(path.stat().st_mtime, _LATEST_CHANGE.timestamp()), UTC)
        data = json.loads(read_regular(path, most_bytes=_MOST_BYTES))
        halt = HaltRow.of({**data, "set_at": datetime.fromisoformat(data["set_at"]).astimezone(UTC)})
        if halt.set_at >= LATEST:
            raise ValueError(f"it is dated {halt.set_at.isoformat()}, and no clock says so")
        if not isinstance(halt.reason, str) or not isinstance(halt.set_by, str):
            raise TypeError("reason and set_by must be texts")
        refuse_unfit(halt.reason, halt.set_by)
        return replace(halt, scope=scope, engaged=True)
    except FileNotFoundError:
        return None
    except (LedgerError, OSError, ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
        why = f"the file {path} is there and cannot be read ({type(error).__name__})"
        return HaltRow(scope, engaged=True, reason=why, set_by="unknown", set_at=since)

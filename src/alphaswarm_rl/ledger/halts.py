"""The kill switch: latched until it is released, and every use of it is logged for good.

Beside an SQLite ledger a halt is a file first (`halt_files`), which holds whoever has the database locked; the row
follows. What counts as halted is what either says.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Connection, exists, func, select

from alphaswarm_rl.core.errors import LedgerError, RunError
from alphaswarm_rl.db.database import Database
from alphaswarm_rl.db.engine import read, sqlite_file, write
from alphaswarm_rl.db.types import utc_now
from alphaswarm_rl.ledger import runs
from alphaswarm_rl.ledger.halt_files import LATEST, HaltFiles, new_halt, refuse_new
from alphaswarm_rl.ledger.halt_scopes import EVERYTHING as EVERYTHING
from alphaswarm_rl.ledger.halt_scopes import is_of_run, plain_scope
from alphaswarm_rl.ledger.rows import HaltLogRow, HaltRow
from alphaswarm_rl.ledger.statements import insert_for
from alphaswarm_rl.ledger.tables import kill_switch, kill_switch_log

_TICK = timedelta(microseconds=1)


class HaltTables(Database):
    """The kill switch."""

    @property
    def halt_files(self) -> HaltFiles:
        """The halts that are files beside the database."""
        return HaltFiles(sqlite_file(self.engine))

    def engage(self, scope: str, reason: str, actor: str) -> HaltRow:
        """Halts everything (`*` or `platform`), a bot (`bot:NAME`) or a run until it is released.

        Raises:
            LedgerBusy: Another process keeps the ledger locked; the file beside it holds all the same.
        """
        return self.record_halt(self.declare_halt(scope, reason, actor))

    def declare_halt(self, scope: str, reason: str, actor: str, *, filed: HaltRow | None = None) -> HaltRow:
        """A halt that holds as a file from now on; beside a server's database only once it is recorded.

        Args:
            scope: Everything (`*` or `platform`), a bot (`bot:NAME`) or a run.
            reason: Why.
            actor: Who.
            filed: The file of this halt, where it was written before the ledger was opened.
        """
        with read(self.engine) as connection:
            if filed is not None and not _is_released(connection, filed):
                return filed
            halt = new_halt(_whole(connection, plain_scope(scope)), reason, actor, _next_moment(connection))
        self.halt_files.write(halt)
        return halt

    def record_halt(self, halt: HaltRow, *, patience: float | None = None) -> HaltRow:
        """Writes a halt into the ledger, unless it is there or was released since; gives its scope's switch.

        Args:
            halt: The halt.
            patience: Seconds to wait for a lock of SQLite; None: as long as everybody.
        """
        with read(self.engine) as connection:
            if _is_settled(connection, halt):
                return _state(connection, halt.scope)
        with write(self.engine, patience=patience) as connection:
            if not _is_settled(connection, halt):
                _add_to_log(connection, "engage", halt)
                _put(connection, halt, where=kill_switch.c.engaged.is_(False))
            return _state(connection, halt.scope)

    def release(self, scope: str, reason: str, actor: str) -> HaltRow:
        """Ends a halt, of the ledger and of its file."""
        refuse_new(reason, actor)
        with write(self.engine) as connection:
            halted = _halted(connection, self.halt_files.read())
            scope = plain_scope(scope)
            whole = scope if scope in halted else _whole(connection, scope)
            if whole not in halted:
                raise LedgerError(
                    f"the kill switch of {whole!r}",
                    "it is not engaged",
                    f"Engaged: {', '.join(sorted(halted))}." if halted else "None is engaged.",
                )
            if not _is_settled(connection, halted[whole]):  # only a file until now
                _add_to_log(connection, "engage", halted[whole])
            at = max([_next_moment(connection), *_moments_after(halted[whole].set_at)])
            released = HaltRow(whole, engaged=False, reason=reason, set_by=actor, set_at=at)
            _add_to_log(connection, "release", released)
            _put(connection, released)
        # Only now: whoever read the file meanwhile finds the release in the log.
        self.halt_files.remove(whole, until=at)
        return released

    def halt_status(self) -> list[HaltRow]:
        """Every scope that is halted now, by the ledger or by a file beside it."""
        files = self.halt_files.read()  # before the ledger: the release of one is there before it is removed
        with read(self.engine) as connection:
            halted = _halted(connection, files)
        return [halted[scope] for scope in sorted(halted)]

    def refuse_if_halted(self, run_id: str | None = None) -> None:
        """Refuses to start anything while the kill switch is engaged, for everything or for this run."""
        for halt in self.halt_status():
            if halt.scope in (EVERYTHING, run_id):
                raise refusal(halt)

    def halt_reason(self, run_id: str) -> str | None:
        """Why this run must halt, or None."""
        return next((halt.reason for halt in self.halt_status() if halt.scope in (EVERYTHING, run_id)), None)

    def halt_log(self) -> list[HaltLogRow]:
        """Every use of the kill switch, the oldest first."""
        return self._rows(HaltLogRow, select(kill_switch_log).order_by(kill_switch_log.c.id))


def refusal(halt: HaltRow) -> RunError:
    """The error of whoever wants to start or to answer while this holds."""
    named = f"{halt.scope} " if is_of_run(halt.scope) else f"--scope {halt.scope} "
    scope = "" if halt.scope == EVERYTHING else named
    remedy = f"Release it first: rl halt {scope}--release --reason WHY."
    return RunError("the kill switch", f"it is engaged: {halt.reason}", remedy)


def _whole(connection: Connection, scope: str) -> str:
    return runs.find(connection, scope).id if is_of_run(scope) else scope


def _next_moment(connection: Connection) -> datetime:
    """Now, but after everything in the log: what came later decides, and a clock may go back."""
    dated = select(func.max(kill_switch_log.c.at)).where(kill_switch_log.c.at < LATEST)
    newest: datetime | None = connection.execute(dated).scalar_one()
    return max([utc_now(), *_moments_after(newest)])


def _moments_after(moment: datetime | None) -> list[datetime]:
    """The moment after this one; none where no clock gave it: what came after would have no date any more."""
    return [moment + _TICK] if moment is not None and moment < LATEST else []


def _halted(connection: Connection, files: list[HaltRow]) -> dict[str, HaltRow]:
    """What is halted, by scope."""
    engaged = connection.execute(select(kill_switch).where(kill_switch.c.engaged.is_(True))).mappings()
    halted = {row["scope"]: HaltRow.of(row) for row in engaged}
    return halted | {
        halt.scope: halt for halt in files if halt.scope not in halted and not _is_settled(connection, halt)
    }


def _is_settled(connection: Connection, halt: HaltRow) -> bool:
    """Whether the log knows this very halt, or a release after it."""
    log = kill_switch_log.c
    return _is_released(connection, halt) or _is_logged(connection, halt, log.action == "engage", log.at == halt.set_at)


def _is_released(connection: Connection, halt: HaltRow) -> bool:
    log = kill_switch_log.c
    return _is_logged(connection, halt, log.action == "release", log.at > halt.set_at, log.at < LATEST)


def _is_logged(connection: Connection, halt: HaltRow, *conditions: ColumnElement[bool]) -> bool:
    entry = exists().where(kill_switch_log.c.scope == halt.scope, *conditions)
    return bool(connection.execute(select(entry)).scalar_one())


def _add_to_log(connection: Connection, action: str, halt: HaltRow) -> None:
    entry = {"scope": halt.scope, "action": action, "reason": halt.reason, "actor": halt.set_by, "at": halt.set_at}
    connection.execute(kill_switch_log.insert().values(entry))


def _put(connection: Connection, halt: HaltRow, where: ColumnElement[bool] | None = None) -> None:
    """Sets the switch of a scope, where it is in that state."""
    values = dict(vars(halt))
    state = {name: value for name, value in values.items() if name != "scope"}
    statement = insert_for(connection, kill_switch).values(values)
    connection.execute(statement.on_conflict_do_update(index_elements=["scope"], set_=state, where=where))


def _state(connection: Connection, scope: str) -> HaltRow:
    return HaltRow.of(connection.execute(select(kill_switch).where(kill_switch.c.scope == scope)).mappings().one())

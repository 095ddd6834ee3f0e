"""The kill switch: latched until it is released, and every use of it is logged for good."""

from __future__ import annotations

from sqlalchemy import Connection, select, update

from alphaswarm_rl.core.errors import LedgerError, RunError
from alphaswarm_rl.db.database import Database
from alphaswarm_rl.db.engine import read, write
from alphaswarm_rl.db.types import utc_now
from alphaswarm_rl.ledger import runs
from alphaswarm_rl.ledger.rows import HaltLogRow, HaltRow
from alphaswarm_rl.ledger.statements import insert_for
from alphaswarm_rl.ledger.tables import kill_switch, kill_switch_log

EVERYTHING = "*"


class HaltTables(Database):
    """The kill switch."""

    def engage(self, scope: str, reason: str, actor: str) -> HaltRow:
        """Halts everything (`*`) or one run until it is released."""
        with write(self.engine) as connection:
            scope = _logged(connection, "engage", scope, reason, actor)
            state = {"engaged": True, "reason": reason, "set_by": actor, "set_at": utc_now()}
            connection.execute(
                insert_for(connection, kill_switch)
                .values(scope=scope, **state)
                .on_conflict_do_update(index_elements=["scope"], set_=state, where=kill_switch.c.engaged.is_(False))
            )
            return _state(connection, scope)

    def release(self, scope: str, reason: str, actor: str) -> HaltRow:
        """Ends a halt."""
        with write(self.engine) as connection:
            scope = _logged(connection, "release", scope, reason, actor)
            state = {"engaged": False, "reason": reason, "set_by": actor, "set_at": utc_now()}
            halted = (kill_switch.c.scope == scope, kill_switch.c.engaged.is_(True))
            if not connection.execute(update(kill_switch).where(*halted).values(state)).rowcount:
                held = (
                    connection.execute(select(kill_switch.c.scope).where(kill_switch.c.engaged.is_(True)))
                    .scalars()
                    .all()
                )
                raise LedgerError(
                    f"the kill switch of {scope!r}",
                    "it is not engaged",
                    f"Engaged: {', '.join(held)}." if held else "None is engaged.",
                )
            return _state(connection, scope)

    def halt_status(self) -> list[HaltRow]:
        """Every scope that is halted now."""
        statement = select(kill_switch).where(kill_switch.c.engaged.is_(True)).order_by(kill_switch.c.scope)
        return self._rows(HaltRow, statement)

    def refuse_if_halted(self, run_id: str | None = None) -> None:
        """Refuses to start anything while the kill switch is engaged, for everything or for this run."""
        for halt in self.halt_status():
            if halt.scope in (EVERYTHING, run_id):
                scope = "" if halt.scope == EVERYTHING else f"{halt.scope} "
                remedy = f"Release it first: rl halt {scope}--release --reason WHY."
                raise RunError("the kill switch", f"it is engaged: {halt.reason}", remedy)

    def halt_reason(self, run_id: str) -> str | None:
        """Why this run must halt, or None."""
        concerns = kill_switch.c.scope.in_((EVERYTHING, run_id))
        statement = select(kill_switch.c.reason).where(concerns, kill_switch.c.engaged.is_(True))
        with read(self.engine) as connection:
            return connection.execute(statement.order_by(kill_switch.c.scope).limit(1)).scalar_one_or_none()

    def halt_log(self) -> list[HaltLogRow]:
        """Every use of the kill switch, the oldest first."""
        return self._rows(HaltLogRow, select(kill_switch_log).order_by(kill_switch_log.c.id))


def _logged(connection: Connection, action: str, scope: str, reason: str, actor: str) -> str:
    for name, value in (("reason", reason), ("actor", actor)):
        if not value.strip():
            raise LedgerError(f"the {name} of the kill switch", "it is empty", f"Say the {name}: it is kept for good.")
    whole = scope if scope == EVERYTHING else runs.find(connection, scope).id
    entry = {"scope": whole, "action": action, "reason": reason, "actor": actor, "at": utc_now()}
    connection.execute(kill_switch_log.insert().values(entry))
    return whole


def _state(connection: Connection, scope: str) -> HaltRow:
    return HaltRow.of(connection.execute(select(kill_switch).where(kill_switch.c.scope == scope)).mappings().one())

"""Finds runs whose process died, so that a look at the ledger tells the truth."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Engine, RowMapping, select, update

from alphaswarm_rl.db.engine import read, write
from alphaswarm_rl.ledger.process import Holder, is_alive
from alphaswarm_rl.ledger.statements import database_now
from alphaswarm_rl.ledger.tables import runs

LIVE = ("pending", "running")
#: A process on another host is taken for dead after three missed heartbeats of ten seconds.
SILENCE = timedelta(seconds=30)

_SIGNS = (runs.c.id, runs.c.host, runs.c.pid, runs.c.process_start, runs.c.heartbeat_at)


def reconcile(engine: Engine) -> list[str]:
    """Marks live runs of dead processes as interrupted, and returns their ids."""
    with read(engine) as connection:
        live = connection.execute(select(*_SIGNS).where(runs.c.status.in_(LIVE))).mappings().all()
        now = database_now(connection) if live else None
    dead = [row for row in live if now is not None and _is_dead(row, now)]
    if not dead:
        return []
    marked = []
    with write(engine) as connection:
        for row in dead:
            # Every sign is compared again: meanwhile somebody may have resumed the run, or its process spoken.
            unchanged = [column == row[column.name] for column in _SIGNS]
            values: dict[str, Any] = {"status": "interrupted", "ended_at": runs.c.heartbeat_at}
            done = connection.execute(update(runs).where(*unchanged, runs.c.status.in_(LIVE)).values(values))
            if done.rowcount:
                marked.append(str(row["id"]))
    return marked


def _is_dead(row: RowMapping, now: datetime) -> bool:
    alive = is_alive(Holder(row["host"], row["pid"], row["process_start"]))
    if alive is None:
        silent: timedelta = now - row["heartbeat_at"]
        return silent > SILENCE
    return not alive

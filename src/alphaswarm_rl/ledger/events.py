"""The events of a run, numbered so that a reader can go on where it stopped."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Engine, func, select

from alphaswarm_rl.db.engine import read, write
from alphaswarm_rl.ledger.rows import EventRow
from alphaswarm_rl.ledger.tables import events


def append(engine: Engine, run_id: str, seq: int, stage: str, ts: datetime, payload: Mapping[str, Any]) -> None:
    """Stores one event; a number that is taken already is an error."""
    values = {"run_id": run_id, "seq": seq, "stage": stage, "ts": ts, "payload": dict(payload)}
    with write(engine) as connection:
        connection.execute(events.insert().values(values))


def next_seq(engine: Engine, run_id: str) -> int:
    """The number after the run's last event; 1 when it has none."""
    last = select(func.coalesce(func.max(events.c.seq), 0)).where(events.c.run_id == run_id)
    with read(engine) as connection:
        newest: int = connection.execute(last).scalar_one()
    return newest + 1


def listed(engine: Engine, run_id: str, *, after: int, limit: int | None) -> list[EventRow]:
    """The run's events behind number `after`, in order."""
    statement = select(events).where(events.c.run_id == run_id, events.c.seq > after).order_by(events.c.seq)
    with read(engine) as connection:
        return [EventRow.of(row) for row in connection.execute(statement.limit(limit)).mappings()]

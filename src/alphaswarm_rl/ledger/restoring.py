"""Bringing back a run that the ledger has lost, from what others still know of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import select

from alphaswarm_rl.core.types import JsonMapping, JsonObject
from alphaswarm_rl.db.database import Database
from alphaswarm_rl.db.engine import write
from alphaswarm_rl.ledger import tables
from alphaswarm_rl.ledger.identity import next_number
from alphaswarm_rl.ledger.specs import store_version
from alphaswarm_rl.ledger.statements import checked, new_id

if TYPE_CHECKING:
    from alphaswarm_rl.spec import RLExperimentSpec

NOTES = "brought back by rl db rebuild"


@dataclass(frozen=True)
class LostRun:
    """What is known of a run that the ledger has not.

    Attributes:
        spec: What was run.
        version_id: The id that its version had; None gives it another.
        row: The columns of its row, but for those of its version and its number.
        events: Its events: seq, stage, ts and payload.
        evaluations: The columns of its evaluations.
        episodes: The columns of its episodes.
    """

    spec: RLExperimentSpec
    version_id: str | None
    row: JsonMapping
    events: Sequence[JsonMapping] = ()
    evaluations: Sequence[JsonMapping] = ()
    episodes: Sequence[JsonMapping] = ()


class RestoreTables(Database):
    """Runs that are brought back."""

    def restore_run(self, lost: LostRun) -> bool:
        """Brings a run back with all that is known of it, or nothing of it; says whether it was missing.

        A parent that the ledger has not is left out.
        """
        run_id = lost.row["id"]
        with write(self.engine) as connection:
            known = select(tables.runs.c.id)
            if connection.execute(known.where(tables.runs.c.id == run_id)).first() is not None:
                return False
            version = store_version(connection, lost.spec, notes=NOTES, version_id=lost.version_id)
            parent = connection.execute(known.where(tables.runs.c.id == lost.row.get("parent_run_id"))).scalar()
            values: JsonObject = {
                **checked(tables.runs, lost.row, fixed=("number", "spec_id", "version_id")),
                "number": next_number(connection),
                "spec_id": version.spec_id,
                "version_id": version.id,
                "spec_hash": version.spec_hash,
                "exec_hash": lost.spec.exec_hash,
                "parent_run_id": parent,
            }
            connection.execute(tables.runs.insert().values(values))
            for table, rows in (
                (tables.events, lost.events),
                (tables.evaluations, [{"id": new_id(), **row} for row in lost.evaluations]),
                (tables.episodes, lost.episodes),
            ):
                if rows:
                    connection.execute(table.insert(), [{"run_id": run_id, **row} for row in rows])
        return True

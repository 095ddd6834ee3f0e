"""Where the steps of a run lie: one row for each file of recorded steps that is in its table."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sqlalchemy import Connection, Table, and_, bindparam, delete, select

from alphaswarm_rl.core.errors import RunError
from alphaswarm_rl.core.types import JsonMapping
from alphaswarm_rl.db.engine import read
from alphaswarm_rl.db.types import utc_now
from alphaswarm_rl.ledger.claims import ClaimedDatabase
from alphaswarm_rl.ledger.rows import RefRow
from alphaswarm_rl.ledger.statements import new_id
from alphaswarm_rl.ledger.tables import equity_curve_refs, runs, trajectory_refs

EQUITY = "equity_curves"

_TABLES = (trajectory_refs, equity_curve_refs)
_FIELDS = {table: [column.name for column in table.c if column.name not in ("id", "created_at")] for table in _TABLES}


class RefTables(ClaimedDatabase):
    """Which files of recorded steps are in their tables."""

    def add_refs(self, segments: Iterable[JsonMapping]) -> None:
        """Stores which files of recorded steps are in their tables; one that is stored already changes nothing.

        A file takes the place of those whose segments it holds all, and one whose segments another holds adds nothing.

        Args:
            segments: The fields of `RefRow`, and `kind`: "equity_curves" or another.
        """
        found = [(_table_of(segment), _ref(segment)) for segment in segments]
        if found:
            with self._write() as connection:
                _lock_runs(connection, {ref.run_id for _, ref in found})
                for table, ref in found:
                    _put(connection, table, ref)

    def refs(self, run_id: str | None = None) -> list[RefRow]:
        """The refs of a run, or all: by run, phase, table and segment."""
        with read(self.engine) as connection:
            found = [ref for table in _TABLES for ref in _by_id(connection, table, run_id).values()]
        return sorted(
            found,
            key=lambda ref: (
                ref.run_id,
                ref.phase,
                ref.iceberg_namespace,
                ref.iceberg_table,
                ref.first_segment,
                ref.last_segment,
            ),
        )

    def drop_refs(self, run_id: str, unwanted: Callable[[RefRow], bool] | None = None) -> int:
        """Deletes the run's refs that are unwanted, or all, and returns how many it were."""
        count = 0
        with self._write() as connection:
            for table in _TABLES:
                known = _by_id(connection, table, run_id)
                doomed = [{"ref": key} for key, ref in known.items() if unwanted is None or unwanted(ref)]
                if doomed:
                    # One id at a time: SQLite takes a limited number of values in one statement.
                    connection.execute(delete(table).where(table.c.id == bindparam("ref")), doomed)
                count += len(doomed)
        return count


def _table_of(segment: JsonMapping) -> Table:
    return equity_curve_refs if segment["kind"] == EQUITY else trajectory_refs


def _ref(segment: JsonMapping) -> RefRow:
    return RefRow(**{name: value for name, value in segment.items() if name != "kind"})


def _lock_runs(connection: Connection, run_ids: set[str]) -> None:
    # Two processes may add one file at once, and then neither would see the row of the other.
    statement = select(runs.c.id).where(runs.c.id.in_(run_ids)).order_by(runs.c.id).with_for_update(key_share=True)
    unknown = sorted(run_ids - set(connection.execute(statement).scalars()))
    if unknown:
        raise RunError(
            f"recorded steps of the run {unknown[0]!r}",
            "the ledger has none with this id",
            "Use the ledger in which the run was made.",
        )


def _put(connection: Connection, table: Table, ref: RefRow) -> None:
    phase = and_(
        table.c.run_id == ref.run_id,
        table.c.phase == ref.phase,
        table.c.iceberg_namespace == ref.iceberg_namespace,
        table.c.iceberg_table == ref.iceberg_table,
    )
    inside = and_(table.c.first_segment >= ref.first_segment, table.c.last_segment <= ref.last_segment)
    around = and_(table.c.first_segment <= ref.first_segment, table.c.last_segment >= ref.last_segment)
    connection.execute(delete(table).where(phase, inside))
    if connection.execute(select(table.c.id).where(phase, around).limit(1)).first() is None:
        values = {name: getattr(ref, name) for name in _FIELDS[table]}
        connection.execute(table.insert().values(id=new_id(), created_at=utc_now(), **values))


def _by_id(connection: Connection, table: Table, run_id: str | None) -> dict[str, RefRow]:
    statement = select(table)
    if run_id is not None:
        statement = statement.where(table.c.run_id == run_id)
    found = connection.execute(statement).mappings()
    return {row["id"]: RefRow(**{name: row[name] for name in _FIELDS[table]}) for row in found}

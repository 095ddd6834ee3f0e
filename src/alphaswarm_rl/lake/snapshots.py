"""Reading tables as they are or were: which snapshots are kept, and the rows of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from alphaswarm_rl.arrays.moments import moment
from alphaswarm_rl.core.contracts import TableQuery
from alphaswarm_rl.core.errors import DataError, nearest
from alphaswarm_rl.lake.catalog import Lake, explained
from alphaswarm_rl.lake.tables import KINDS
from alphaswarm_rl.settings import Settings

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

#: How many snapshots an error lists.
_LISTED = 5


@dataclass(frozen=True)
class SnapshotRow:
    """A state of a table.

    Attributes:
        id: Iceberg's number of it.
        time: When it came to be.
        operation: What made it: append, overwrite, delete.
        rows: How many rows the table had then; None where its writer did not say.
    """

    id: int
    time: datetime
    operation: str
    rows: int | None


def snapshots(lake: Lake, identifier: str) -> list[SnapshotRow]:
    """The snapshots of a table that are still kept, the oldest first."""
    return [_row(snapshot) for snapshot in _ordered(_table(lake, identifier))]


def read_rows(
    lake: Lake,
    identifier: str,
    *,
    snapshot_id: int | None = None,
    as_of: datetime | str | None = None,
    columns: Sequence[str] | None = None,
    where: Mapping[str, Sequence[object]] | None = None,
    limit: int | None = None,
) -> tuple[pa.Table, int | None]:
    """The rows of a table as it is, or as it was; and the snapshot they are of, if there is any yet.

    Args:
        lake: The lake whose catalogue has it.
        identifier: The table, `namespace.name`.
        snapshot_id: A snapshot by its number.
        as_of: A time, in ISO 8601 if it is text and in UTC if it has no zone: the snapshot that was current then.
        columns: The columns to read, in this order; None: all.
        where: The values that a column may have, by its name; None: all rows.
        limit: At most that many rows.

    Raises:
        DataError: There is no such table, snapshot or column, or both a snapshot and a time were given.
    """
    if snapshot_id is not None and as_of is not None:
        raise DataError(
            f"the table {identifier}", "both a snapshot and a time were given", "Give one: the snapshot is exact."
        )
    if limit is not None and limit < 0:
        raise DataError(f"a limit of {limit} rows", "it is below 0", "Give 0 or more.")
    with explained(f"the table {identifier}", "See what is there with: rl lake verify."):
        table = _table(lake, identifier)
        chosen = _chosen(table, identifier, snapshot_id, as_of)
        # A snapshot has the columns of its own time.
        number = None if chosen is None else chosen.schema_id
        schema = table.schema() if number is None else table.schemas()[number]
        known = [field.name for field in schema.fields]
        for name in (*(columns or ()), *(where or ())):
            if name not in known:
                raise DataError(f"the table {identifier}", f"it has no column {name!r}", nearest(name, known))
        selected = list(known if columns is None else dict.fromkeys(columns))
        read = None if chosen is None else chosen.snapshot_id
        scan = table.scan(_filter(where or {}), tuple(selected), snapshot_id=read, limit=limit)
        return scan.to_arrow().select(selected), read


class LakeReader:
    """Reads tables of these settings' lake, which is open only meanwhile; a `core.contracts.TableReader`.

    Args:
        settings: Where the lake is.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def read(self, identifier: str, **query: Unpack[TableQuery]) -> tuple[pa.Table, int]:
        """The rows of a table as they are in one snapshot, and that snapshot's id."""
        with Lake(self._settings) as lake:
            name = next((lake.identifier(kind) for kind in KINDS if kind == identifier), identifier)
            rows, read = read_rows(lake, name, **query)
        if read is None:
            raise DataError(f"the table {name}", "it has no rows yet", "Append some, or name another table.")
        return rows, read


def _filter(where: Mapping[str, Sequence[object]]) -> BooleanExpression:
    from pyiceberg import expressions

    one_of: Any = expressions.In  # its constructor is none that type checkers understand
    chosen: BooleanExpression = expressions.AlwaysTrue()
    for column, values in where.items():
        chosen = expressions.And(chosen, one_of(column, set(values)))
    return chosen


def _table(lake: Lake, identifier: str) -> Table:
    table = lake.find(identifier) if lake.exists and "." in identifier else None
    if table is None:
        spaces = lake.catalog.list_namespaces() if lake.exists else []
        existing = [".".join(name) for space in spaces for name in lake.catalog.list_tables(space)]
        raise DataError(f"the table {identifier!r}", "the catalogue has no such table", nearest(identifier, existing))
    return table


def _chosen(table: Table, identifier: str, snapshot_id: int | None, as_of: datetime | str | None) -> Snapshot | None:
    """The snapshot that is asked for; None where the table never had one."""
    if snapshot_id is None and as_of is None:
        return table.current_snapshot()
    if snapshot_id is not None:
        found = table.snapshot_by_id(snapshot_id)
        why = f"it has no snapshot {snapshot_id}: there never was one, or it expired"
    else:
        assert as_of is not None
        instant = moment(as_of).astype("datetime64[ms]")
        instant_ms = int(instant.astype(np.int64))
        if instant_ms > datetime.now(UTC).timestamp() * 1000:
            why = f"nobody knows yet what it will hold at {instant}"
            raise DataError(f"the table {identifier}", why, "Name a time that is past.")
        found = table.snapshot_as_of_timestamp(instant_ms)
        why = f"it has no snapshot of {instant} or before"
        if found is not None and _followed_by_a_gap(table, instant_ms):
            found, why = None, f"the snapshot that was current at {instant} may have expired"
    if found is None:
        kept = [f"{row.id} ({row.time.isoformat()})" for row in map(_row, _ordered(table))]
        shown = ", ".join(["...", *kept[-_LISTED:]] if len(kept) > _LISTED else kept)
        raise DataError(f"the table {identifier}", why, f"There are: {shown}." if kept else "It has none at all.")
    return found


def around(table: Table, instant_ms: int) -> list[int]:
    """The snapshot that was current then, and the one after it, if any: without it nobody knows how long that was."""
    log = table.history()
    last = max((place for place, entry in enumerate(log) if entry.timestamp_ms <= instant_ms), default=None)
    return [] if last is None else [entry.snapshot_id for entry in log[last : last + 2]]


def _followed_by_a_gap(table: Table, instant_ms: int) -> bool:
    """Whether the snapshot after the one of that time has lost its parent: another was current in between."""
    following = [table.snapshot_by_id(number) for number in around(table, instant_ms)[1:]]
    return any(snapshot is None or snapshot.parent_snapshot_id is None for snapshot in following)


def _ordered(table: Table) -> list[Snapshot]:
    return sorted(table.metadata.snapshots, key=lambda snapshot: snapshot.timestamp_ms)


def _row(snapshot: Snapshot) -> SnapshotRow:
    summary = snapshot.summary
    rows = None if summary is None else summary.additional_properties.get("total-records")
    return SnapshotRow(
        id=snapshot.snapshot_id,
        time=datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC),
        operation="" if summary is None else summary.operation.value,
        rows=None if rows is None else int(rows),
    )

"""The state of the lake, and the expiry of old snapshots; `sweeping` deletes the files that no snapshot has then.

Nothing here touches the spool: what lies there is in no table yet.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from alphaswarm_rl.arrays.moments import moment
from alphaswarm_rl.core.errors import LakeError
from alphaswarm_rl.core.types import JsonMapping
from alphaswarm_rl.lake.catalog import Lake, explained, files_of
from alphaswarm_rl.lake.segments import read_facts, spooled
from alphaswarm_rl.lake.snapshots import around
from alphaswarm_rl.lake.sweeping import Swept, known_files, listed, sweep
from alphaswarm_rl.lake.tables import KINDS, Kind

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from alphaswarm_rl.ledger import Ledger

__all__ = [
    "LakeStatus",
    "Swept",
    "TableStatus",
    "Undelivered",
    "expire",
    "expired_by_commit",
    "status",
    "sweep",
    "undelivered",
]


@dataclass(frozen=True)
class TableStatus:
    """One table.

    Attributes:
        kind: What its rows are.
        table: Its name.
        snapshots: How many of its states can be read.
        files: Files of its current state.
        rows: Rows in them.
        bytes: Their size.
        runs: Runs that have rows in it.
        unknown_files: Files below its folder that no snapshot has; null where nobody looked.
        unknown_bytes: Their size.
    """

    kind: Kind
    table: str
    snapshots: int
    files: int
    rows: int
    bytes: int
    runs: int
    unknown_files: int | None = None
    unknown_bytes: int | None = None


@dataclass(frozen=True)
class Undelivered:
    """What lies in the spool of one run.

    Attributes:
        run_id: The run.
        status: The run's state; null where the ledger does not know it.
        segments: Whole segments.
        rows: Rows in those that can be read.
        unreadable: Segments that cannot be read.
    """

    run_id: str
    status: str | None
    segments: int
    rows: int
    unreadable: int


@dataclass(frozen=True)
class LakeStatus:
    """The lake as it is now."""

    warehouse: str
    tables: tuple[TableStatus, ...]
    undelivered: tuple[Undelivered, ...]


def status(lake: Lake, ledger: Ledger, *, unknown: bool = False) -> LakeStatus:
    """What the tables and the spool hold.

    Args:
        lake: The lake.
        ledger: Knows the runs.
        unknown: Whether files that no snapshot has are looked for, which lists the whole warehouse.
    """
    found = []
    if lake.exists:
        with explained("the lake", "Check the catalogue and the warehouse: rl lake status --debug."):
            found = [_table_status(lake, kind, unknown=unknown) for kind in KINDS]
    return LakeStatus(lake.warehouse, tuple(found), undelivered(lake, ledger))


def undelivered(lake: Lake, ledger: Ledger) -> tuple[Undelivered, ...]:
    """What lies in the spool, run by run."""
    paths = defaultdict(list)
    for path in spooled(lake.spool):
        paths[path.relative_to(lake.spool).parts[0]].append(path)
    if not paths:
        return ()
    states = {row.id: row.status for row in ledger.runs(limit=None, include_removed=True)}
    found = []
    for run_id, segments in paths.items():
        rows, unreadable, gone = 0, 0, 0
        for path in segments:
            try:
                rows += read_facts(path).rows
            except LakeError:
                # A segment that is not there any more was delivered meanwhile.
                unreadable, gone = (unreadable + 1, gone) if path.exists() else (unreadable, gone + 1)
        found.append(Undelivered(run_id, states.get(run_id), len(segments) - gone, rows, unreadable))
    return tuple(found)


def expire(
    lake: Lake,
    pinned: Sequence[JsonMapping],
    *,
    keep: timedelta = timedelta(0),
    kinds: Sequence[Kind] = KINDS,
) -> dict[str, int]:
    """Forgets old snapshots of the six tables; says how many of each. No file is deleted.

    The current snapshot stays, and so do those that a tag, a branch or a stored spec names.

    Args:
        lake: The lake.
        pinned: Data pipelines of stored specs, as `Ledger.pinned_data` gives them.
        keep: Snapshots that were current within this time stay too: somebody may be reading them.
        kinds: Of which tables.
    """
    if not lake.exists:
        return {}
    pins = list(_pins(pinned))
    return {lake.identifier(kind): _expire(lake, kind, pins, keep) for kind in kinds}


def expired_by_commit(lake: Lake, pinned: Sequence[JsonMapping]) -> Callable[[Table, Kind], list[int]]:
    """Says of a table before a commit what `expire` would forget after it: the snapshot that is current now, too."""
    from pyiceberg.table.refs import MAIN_BRANCH

    pins = list(_pins(pinned))

    def expired(table: Table, kind: Kind) -> list[int]:
        refs = {ref.snapshot_id for name, ref in table.metadata.refs.items() if name != MAIN_BRANCH}
        kept = refs | _pinned(table, (lake.identifier(kind), kind), pins)
        ids = (snapshot.snapshot_id for snapshot in table.metadata.snapshots)
        return [snapshot_id for snapshot_id in ids if snapshot_id not in kept]

    return expired


def _expire(lake: Lake, kind: Kind, pins: list[_Pin], keep: timedelta) -> int:
    from pyiceberg.exceptions import CommitFailedException

    from alphaswarm_rl.lake import producers

    identifier = lake.identifier(kind)
    count = 0

    def change() -> None:
        nonlocal count
        table = lake.find(identifier)
        doomed = [] if table is None else _expired(table, (identifier, kind), pins, keep)
        if table is not None and doomed:
            try:
                producers.expire(table, doomed)
            except ValueError as error:  # another process expired one of them meanwhile: look again
                raise CommitFailedException(str(error)) from error
            count += len(doomed)

    what = f"expiring snapshots of the table {identifier}"
    with explained(what, "Nothing is lost; try again: rl lake expire."):
        lake.commit(what, change)
    return count


@dataclass(frozen=True)
class _Pin:
    """A snapshot that a stored spec needs: by its id, or by a moment in tables that go by one of these names."""

    snapshot_id: int | None
    as_of_ms: int | None
    names: frozenset[str] | None

    def means(self, *names: str) -> bool:
        return self.names is None or not self.names.isdisjoint(names)


def _number(snapshot_id: object) -> int | None:
    """The id; None for what another catalogue calls by a word, which is no snapshot of these tables."""
    return int(str(snapshot_id)) if str(snapshot_id).isdigit() else None


def _pins(value: object) -> Iterator[_Pin]:
    """Every snapshot that is named anywhere in there, be it inside another pipeline's parameters."""
    if isinstance(value, Mapping):
        snapshot_id, as_of = value.get("snapshot_id"), value.get("as_of")
        if snapshot_id is not None or as_of is not None:
            yield _Pin(
                _number(snapshot_id),
                # As the pipelines read it.
                None if as_of is None else int(moment(as_of).astype("datetime64[ms]").astype(np.int64)),
                frozenset(item for item in value.values() if isinstance(item, str)) if "table" in value else None,
            )
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from _pins(item)


def _pinned(table: Table, names: tuple[str, ...], pins: Iterable[_Pin]) -> set[int | None]:
    """The snapshots that stored specs need."""
    kept: set[int | None] = set()
    for pin in pins:
        kept.add(pin.snapshot_id)
        if pin.as_of_ms is not None and pin.means(*names):
            kept.update(around(table, pin.as_of_ms))
    return kept


def _expired(table: Table, names: tuple[str, ...], pins: Iterable[_Pin], keep: timedelta) -> list[int]:
    kept = {ref.snapshot_id for ref in table.metadata.refs.values()} | {table.metadata.current_snapshot_id}
    kept |= _pinned(table, names, pins)
    recent_ms = (datetime.now(UTC) - keep).timestamp() * 1000
    by_time = sorted(table.metadata.snapshots, key=lambda snapshot: snapshot.timestamp_ms)
    # A snapshot was current until the next one came.
    return [
        snapshot.snapshot_id
        for snapshot, following in pairwise(by_time)
        if snapshot.snapshot_id not in kept and following.timestamp_ms <= recent_ms
    ]


def _table_status(lake: Lake, kind: Kind, *, unknown: bool) -> TableStatus:
    identifier = lake.identifier(kind)
    table = lake.find(identifier)
    if table is None:
        return TableStatus(kind, identifier, 0, 0, 0, 0, 0)
    orphans = None
    if unknown:
        # In this order: what is added in between is no orphan then.
        files_below = listed(lake, table)
        known = known_files(lake, table.refresh())
        orphans = [file.size for file in files_below if file.path not in known]
    files = files_of(table)
    return TableStatus(
        kind,
        identifier,
        snapshots=len(table.metadata.snapshots),
        files=len(files),
        rows=sum(file.rows for file in files),
        bytes=sum(file.bytes for file in files),
        runs=len({file.run_id for file in files}),
        unknown_files=None if orphans is None else len(orphans),
        unknown_bytes=None if orphans is None else sum(orphans),
    )

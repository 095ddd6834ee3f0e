"""How much is in the lake, from what its metadata says: no file with rows is opened.

Where the catalogue is an SQLite file and the warehouse a folder, both are read as Iceberg defines them, without its
library, which takes longer to load than everything else that a look at the lake needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from alphaswarm_rl.core.errors import LakeError
from alphaswarm_rl.core.json import load_json
from alphaswarm_rl.core.types import JsonMapping
from alphaswarm_rl.core.wording import size
from alphaswarm_rl.lake.catalog import CATALOG, Lake, files_of
from alphaswarm_rl.lake.segments import spooled
from alphaswarm_rl.lake.tables import KINDS

if TYPE_CHECKING:
    from pyiceberg.table import Table

#: What a snapshot's summary calls its rows, its files and their bytes.
_TOTALS = ("total-records", "total-data-files", "total-files-size")
_METADATA = """
SELECT metadata_location FROM iceberg_tables
WHERE catalog_name = :catalog AND table_namespace = :namespace AND table_name = :name
"""


@dataclass(frozen=True)
class LakeCount:
    """What is in the lake.

    Attributes:
        tables: Tables of steps that were made.
        rows: Rows in their current snapshots.
        files: Files of these snapshots.
        bytes: Their size.
        segments: Segments in the spool, which are in no table yet.
    """

    tables: int
    rows: int
    files: int
    bytes: int
    segments: int

    def __str__(self) -> str:
        held = f"{self.tables} tables, {self.rows:,} rows, {self.files:,} files, {size(self.bytes)}"
        return f"{held}; {self.segments} segments wait in the spool"


@dataclass(frozen=True)
class _Counted:
    """Rows, files and bytes of a table, and where its files are."""

    location: str
    totals: tuple[int, int, int]


def count(lake: Lake) -> LakeCount:
    """What is in the lake; one that was never made is not made by the look.

    Raises:
        LakeError: A table's files are in another warehouse, or what says them cannot be read.
    """
    names = [lake.identifier(kind) for kind in KINDS]
    known = _tables(lake, names) if lake.exists else {}
    tables = {name: table for name, table in known.items() if table is not None}
    for name, table in tables.items():
        lake.refuse_place(name, table.location)
    rows, files, in_bytes = (
        sum(part) for part in zip((0, 0, 0), *(each.totals for each in tables.values()), strict=True)
    )
    return LakeCount(len(tables), rows, files, in_bytes, len(spooled(lake.spool)))


def _tables(lake: Lake, names: list[str]) -> dict[str, _Counted | None]:
    if lake.local and lake.catalog_file is not None:
        try:
            documents = _documents(lake, lake.catalog_file, names)
        except FileNotFoundError:  # another process committed between the two looks, and deleted the old file
            documents = _documents(lake, lake.catalog_file, names)
        return {name: None if found is None else _by_document(lake, name, found) for name, found in documents.items()}
    return {name: _by_library(lake, name) for name in names}


def _documents(lake: Lake, catalog: Path, names: list[str]) -> dict[str, JsonMapping | None]:
    """The current metadata of these tables as they lie on the disk; None where there is no such table."""
    from sqlalchemy import create_engine, text
    from sqlalchemy.pool import NullPool

    engine = create_engine(f"sqlite:///{catalog}?timeout=5", poolclass=NullPool)
    found: dict[str, JsonMapping | None] = dict.fromkeys(names)
    with engine.connect() as connection:
        # A process that was killed as it made the catalogue leaves one without tables.
        if not engine.dialect.has_table(connection, "iceberg_tables"):
            return found
        for name in names:
            namespace, _, last = name.rpartition(".")
            values = {"catalog": CATALOG, "namespace": namespace, "name": last}
            location = connection.execute(text(_METADATA), values).scalar_one_or_none()
            if location is not None:
                lake.refuse_place(name, location)  # before its file is looked for: a moved home has them elsewhere
                found[name] = _document(name, lake.path(location))
    return found


def _document(name: str, path: Path) -> JsonMapping:
    try:
        document = load_json(path.read_bytes())
    except ValueError as error:
        raise _unreadable(name, path, str(error)) from error
    if not isinstance(document, Mapping):
        raise _unreadable(name, path, "it is no object")
    return document


def _unreadable(name: str, path: str | Path, why: str) -> LakeError:
    return LakeError(f"the table {name}", f"its metadata {str(path)!r} cannot be read: {why}", "Put a copy back.")


def _by_document(lake: Lake, name: str, document: JsonMapping) -> _Counted | None:
    """What the metadata of a table say; where its current snapshot was not summed up, what the library counts."""
    try:
        location, current = document["location"], document.get("current-snapshot-id")
        if current in (None, -1):
            return _Counted(location, (0, 0, 0))
        (snapshot,) = (each for each in document["snapshots"] if each["snapshot-id"] == current)
        summary = snapshot.get("summary") or {}
        if not all(total in summary for total in _TOTALS):
            return _by_library(lake, name)
        rows, files, in_bytes = (int(summary[total]) for total in _TOTALS)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise _unreadable(
            name, str(document.get("location")), f"it is not as Iceberg defines it ({error!r})"
        ) from error
    return _Counted(location, (rows, files, in_bytes))


def _by_library(lake: Lake, name: str) -> _Counted | None:
    table = lake.find(name)
    return None if table is None else _Counted(table.location(), _totals(table))


def _totals(table: Table) -> tuple[int, int, int]:
    """Rows, files and bytes by the summary of the current snapshot; by its planned files where it says none."""
    snapshot = table.current_snapshot()
    if snapshot is None:
        return 0, 0, 0
    summary = {} if snapshot.summary is None else snapshot.summary.additional_properties
    if all(name in summary for name in _TOTALS):
        rows, files, in_bytes = (int(summary[name]) for name in _TOTALS)
        return rows, files, in_bytes
    planned = files_of(table)
    return sum(file.rows for file in planned), len(planned), sum(file.bytes for file in planned)

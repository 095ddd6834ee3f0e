"""How much is in the lake, from what its metadata says: no file with rows is opened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from alphaswarm_rl.core.wording import size
from alphaswarm_rl.lake.catalog import Lake, files_of
from alphaswarm_rl.lake.segments import spooled
from alphaswarm_rl.lake.tables import KINDS

if TYPE_CHECKING:
    from pyiceberg.table import Table

#: What a snapshot's summary calls its rows, its files and their bytes.
_TOTALS = ("total-records", "total-data-files", "total-files-size")


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


def count(lake: Lake) -> LakeCount:
    """What is in the lake; one that was never made is not made by the look."""
    found = [lake.find(lake.identifier(kind)) for kind in KINDS] if lake.exists else []
    totals = [_totals(table) for table in found if table is not None]
    rows, files, in_bytes = (sum(part) for part in zip((0, 0, 0), *totals, strict=True))
    return LakeCount(len(totals), rows, files, in_bytes, len(spooled(lake.spool)))


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

"""Compaction: many small files of a run become few large ones, in the spool and in the tables."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from alphaswarm_rl.core.claims import Claim
from alphaswarm_rl.lake.catalog import Lake, LakeFile, explained
from alphaswarm_rl.lake.claims import refuse_stale
from alphaswarm_rl.lake.delivery import files_by_phase, phase_and_name, place, retire
from alphaswarm_rl.lake.segments import (
    ROW_GROUP,
    Segment,
    SegmentName,
    merge,
    parts_beside,
    read_facts,
    remove,
    spooled,
)
from alphaswarm_rl.lake.tables import KINDS, Kind

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from alphaswarm_rl.lake.producers import NewFile

#: Smaller neighbours are merged up to this many rows.
_LARGE = 1_000_000
#: A file of this many bytes is left as it is: what is in it takes longer to read than the file to open.
_LARGE_BYTES = 1_000_000


@dataclass(frozen=True)
class _Part:
    """A file that may become part of a larger one."""

    name: SegmentName
    rows: int
    bytes: int

    @property
    def is_small(self) -> bool:
        return self.rows < ROW_GROUP and self.bytes < _LARGE_BYTES


def merge_spooled(spool: Path, claim: Claim, known: Mapping[Path, Segment] | None = None) -> None:
    """Merges small neighbours among a run's segments that are not delivered yet, so that they arrive as one.

    Args:
        spool: The spool.
        claim: The run, and whose segments of it.
        known: Segments by their paths that need not be read again.
    """
    known = known or {}
    by_folder: dict[Path, list[tuple[SegmentName, Path]]] = defaultdict(list)
    for path, name in spooled(spool, claim.run_id, claim=claim).items():
        by_folder[path.parent].append((name, path))
    for folder, spooled_here in by_folder.items():
        # A killed process may have left the parts of one that it had merged.
        remove(part for name, path in spooled_here for part in parts_beside(path, name))
        found = [known.get(path) or Segment(path, name, read_facts(path)) for name, path in sorted(spooled_here)]
        parts = [_Part(segment.name, segment.facts.rows, segment.path.stat().st_size) for segment in found]
        for group in _neighbours(parts, phase=folder.name):
            members = [segment for segment in found if segment.name in group]
            if len(members) > 1:
                name = SegmentName(members[0].name.first, members[-1].name.last, members[-1].name.timesteps)
                merge(members, folder / str(name))
                remove(segment.path for segment in members)


def compact(lake: Lake, claim: Claim, kinds: Sequence[Kind] = KINDS) -> int:
    """Merges small neighbours among a run's files in the tables; says how many files went into others.

    Files that were merged stay on disk until the sweep: somebody may be reading them.

    Args:
        lake: The lake.
        claim: The run, and its newest claim.
        kinds: In which tables.
    """
    return sum(_compact_kind(lake, kind, claim) for kind in kinds)


def _compact_kind(lake: Lake, kind: Kind, claim: Claim) -> int:
    from alphaswarm_rl.lake import producers

    identifier = lake.identifier(kind)
    merged = 0

    def change() -> None:
        nonlocal merged
        merged = 0
        table = lake.find(identifier)
        if table is None:
            return
        lake.refuse_elsewhere(table)
        refuse_stale(table, claim)
        added, gone = [], []
        for (_, phase), files in files_by_phase(table, [claim.run_id]).items():
            by_name = dict(sorted(files, key=lambda item: item[0]))
            parts = [_Part(name, file.rows, file.bytes) for name, file in by_name.items()]
            for group in _neighbours(parts, phase=phase):
                if len(group) > 1:
                    added.append(_merged(lake, table, [by_name[name] for name in group], claim))
                    gone += [by_name[name] for name in group]
        if gone:
            producers.exchange(table, added=added, deleted=[file.entry for file in gone])
            merged = len(gone)
            retire(lake, gone)

    what = f"compacting run {claim.run_id} in the table {identifier}"
    with explained(what, "Nothing changed; try again: rl lake compact."):
        lake.commit(what, change)
    return merged


def _neighbours(parts: list[_Part], *, phase: str) -> list[list[SegmentName]]:
    """Groups of small files that follow each other, each of about a million rows; one that is not small is alone.

    What a policy was judged by last stays apart: a run that is resumed at its end drops that, and judges again.
    """
    groups: list[list[SegmentName]] = []
    rows = _LARGE
    newest = max((part.name.timesteps for part in parts), default=0)
    for part in parts:
        name, before = part.name, groups[-1][-1] if groups else None
        follows = before is not None and before.last + 1 == name.first
        apart = before is not None and phase != "train" and before.timesteps < name.timesteps == newest
        if rows + part.rows > _LARGE or not part.is_small or not follows or apart:
            groups.append([])
            rows = 0
        groups[-1].append(name)
        rows += part.rows if part.is_small else _LARGE
    return groups


def _merged(lake: Lake, table: Table, files: list[LakeFile], claim: Claim) -> NewFile:
    """Writes the rows of these files into a new one in the warehouse."""
    names = [phase_and_name(file)[1] for file in files]
    name = SegmentName(names[0].first, names[-1].last, names[-1].timesteps)
    with tempfile.TemporaryDirectory(dir=_scratch(lake), prefix=".compact-") as folder:
        sources = [_local(lake, table, file, Path(folder)) for file in files]
        whole = merge(sources, Path(folder) / str(name))
        return place(lake, table, whole, claim)


def _scratch(lake: Lake) -> Path:
    """On the warehouse's disk where that is local, so that a file can be linked to its place."""
    folder = lake.path(lake.warehouse) if lake.local else lake.settings.lake_path
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _local(lake: Lake, table: Table, file: LakeFile, folder: Path) -> Segment:
    """A file of the table as a segment on this machine."""
    _, name = phase_and_name(file)
    if lake.local:
        path = lake.path(file.location)
    else:
        from pyarrow.fs import LocalFileSystem, copy_files

        filesystem, named = lake.filesystem(table)
        path = folder / f"source-{name}"
        copy_files(
            named(file.location), str(path), source_filesystem=filesystem, destination_filesystem=LocalFileSystem()
        )
    return Segment(path, name, read_facts(path))

"""Deleting the files of removed runs at once, instead of waiting until old snapshots expire and the sweep comes by."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from alphaswarm_rl.core.types import JsonMapping
from alphaswarm_rl.lake.catalog import Lake, explained
from alphaswarm_rl.lake.maintenance import expire
from alphaswarm_rl.lake.sweeping import known_files
from alphaswarm_rl.lake.tables import KINDS


@dataclass(frozen=True)
class KeptFiles:
    """Files of a removed run that stay.

    Attributes:
        run_id: The run.
        table: The table that they were in.
        files: How many.
        bytes: Their size.
        why: Who needs them.
    """

    run_id: str
    table: str
    files: int
    bytes: int
    why: str


@dataclass(frozen=True)
class Freed:
    """What was deleted of removed runs.

    Attributes:
        files: How many files.
        bytes: Their size.
        snapshots: How many snapshots of all tables were forgotten for it.
        kept: What stays, and why.
    """

    files: int
    bytes: int
    snapshots: int
    kept: tuple[KeptFiles, ...]


def free(lake: Lake, run_ids: Collection[str], pinned: Sequence[JsonMapping]) -> Freed:
    """Forgets the old snapshots of the tables and deletes the files of these runs that none needs any more.

    It can be done twice: what a process that was killed left is deleted by the next one.

    Nobody writes for a removed run: its claims are withdrawn, so that its files need not grow old first.

    Args:
        lake: The lake.
        run_ids: Runs whose rows were taken out of the tables.
        pinned: Data pipelines of stored specs: snapshots that they name stay, with their files.
    """
    if not lake.exists or not run_ids:
        return Freed(0, 0, 0, ())
    snapshots = sum(expire(lake, pinned).values())
    sizes: list[int] = []
    kept: list[KeptFiles] = []
    for kind in KINDS:
        identifier = lake.identifier(kind)
        with explained(f"freeing files of the table {identifier}", "The runs are removed; try: rl lake sweep."):
            for found in _free_table(lake, identifier, run_ids, sizes):
                kept.append(found)
    return Freed(len(sizes), sum(sizes), snapshots, tuple(kept))


def _free_table(lake: Lake, identifier: str, run_ids: Collection[str], freed: list[int]) -> Iterator[KeptFiles]:
    from pyarrow.fs import FileSelector, FileType

    table = lake.find(identifier)
    if table is None:
        return
    lake.refuse_elsewhere(table)
    filesystem, named = lake.filesystem(table)
    needed = known_files(lake, table)
    root = f"{named(table.location())}/data"
    # One look instead of one for every run that was ever removed.
    folders = {info.base_name for info in filesystem.get_file_info(FileSelector(root, allow_not_found=True))}
    for run_id in sorted(run_id for run_id in run_ids if f"run_id={run_id}" in folders):
        folder = f"{root}/run_id={run_id}"
        infos = filesystem.get_file_info(FileSelector(folder, recursive=True, allow_not_found=True))
        files = [info for info in infos if info.type == FileType.File]
        for info in files:
            if info.path not in needed:
                filesystem.delete_file(info.path)
                freed.append(info.size)
        stay = [info.size for info in files if info.path in needed]
        if stay:
            why = "a snapshot has them that a stored spec, a tag or a branch names"
            yield KeptFiles(run_id, identifier, len(stay), sum(stay), why)
        elif files:
            filesystem.delete_dir(folder)

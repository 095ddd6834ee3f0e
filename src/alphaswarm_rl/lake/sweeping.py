"""The sweep: deletes files of the warehouse that no snapshot has, once they are old."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from alphaswarm_rl.core.errors import LakeError, OptionError
from alphaswarm_rl.lake.catalog import Lake, explained
from alphaswarm_rl.lake.tables import KINDS, Kind

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo, FileSystem
    from pyiceberg.table import Table

#: A file younger than this may be on its way into a table: whoever made it has not committed it yet.
LEAST_AGE = timedelta(minutes=10)

_SEGMENT = re.compile(r"data/run_id=(?P<run>[^/]+(/claim-\d+)?)/(?P<phase>[^/]+)/(?P<name>[^/.]+)[^/]*")
_METADATA = re.compile(r"(?P<version>\d+)-[^/]+\.metadata\.json")


@dataclass(frozen=True)
class Swept:
    """What a sweep deleted, or would delete.

    Attributes:
        files: How many files.
        bytes: Their size.
        paths: What they were called.
    """

    files: int
    bytes: int
    paths: tuple[str, ...]


def sweep(lake: Lake, older_than: timedelta = timedelta(hours=24), *, dry_run: bool = False) -> Swept:
    """Deletes old files below the six tables' folders that no snapshot has, and the folders that are empty then.

    A file whose twin is still in the spool stays, and so does everything in the spool itself.

    Args:
        lake: The lake.
        older_than: Younger files stay; ten minutes at least.
        dry_run: Whether nothing is deleted.
    """
    if older_than < LEAST_AGE:
        raise OptionError(
            "the sweep",
            f"files younger than {LEAST_AGE} may be on their way into a table, and {older_than} was asked for",
            "Name a longer time, such as --older-than 24h.",
        )
    if not lake.exists:
        return Swept(0, 0, ())
    limit = datetime.now(UTC) - older_than
    doomed: list[FileInfo] = []
    for kind in KINDS:
        identifier = lake.identifier(kind)
        what = f"sweeping the table {identifier}"
        with explained(what, "What no snapshot has stays until the next sweep; try again: rl lake sweep."):
            doomed += _sweep_table(lake, kind, identifier, limit, dry_run=dry_run)
    doomed += _sweep_scratch(lake, limit, dry_run=dry_run)
    return Swept(len(doomed), sum(file.size for file in doomed), tuple(file.path for file in doomed))


def listed(lake: Lake, table: Table) -> list[FileInfo]:
    """Every file below a table's folder, with size and time."""
    from pyarrow.fs import FileSelector, FileType

    filesystem, named = lake.filesystem(table)
    selector = FileSelector(named(table.location()), recursive=True, allow_not_found=True)
    return [info for info in filesystem.get_file_info(selector) if info.type == FileType.File]


def known_files(lake: Lake, table: Table) -> set[str]:
    """Every file that some snapshot of the table needs, and the table itself, as the file system names them."""
    metadata = table.metadata
    found = {table.metadata_location, *(entry.metadata_file for entry in metadata.metadata_log)}
    found |= {file.statistics_path for file in (*metadata.statistics, *metadata.partition_statistics)}
    for snapshot in metadata.snapshots:
        found.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path not in found:  # else it is another snapshot's too
                found.add(manifest.manifest_path)
                found |= {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io)}
    _, named = lake.filesystem(table)
    return {named(location) for location in found}


def _sweep_table(lake: Lake, kind: Kind, identifier: str, limit: datetime, *, dry_run: bool) -> list[FileInfo]:
    table = lake.find(identifier)
    if table is None:
        return []
    lake.refuse_elsewhere(table)
    filesystem, named = lake.filesystem(table)
    root = named(table.location())
    # The order matters. A segment leaves the spool once it is in its table, so who finds no twin and looks at the table
    # after that finds the file there.
    files = listed(lake, table)
    old = [file for file in files if file.mtime < limit and not _twin(lake, kind, file.path, root).exists()]
    table = lake.catalog.load_table(identifier)
    _refuse_older_catalogue(table, files)
    known = known_files(lake, table)
    doomed = [file for file in old if file.path not in known]
    if not dry_run:
        doomed = [file for file in doomed if _delete(lake, filesystem, kind, file, root)]
        if lake.local:
            _prune(Path(root) / "data")
    return doomed


def _delete(lake: Lake, filesystem: FileSystem, kind: Kind, file: FileInfo, root: str) -> bool:
    # A run that was resumed meanwhile may have brought another file of the same name.
    now = filesystem.get_file_info(file.path)
    if (now.mtime_ns, now.size) != (file.mtime_ns, file.size) or _twin(lake, kind, file.path, root).exists():
        return False
    filesystem.delete_file(file.path)
    return True


def _twin(lake: Lake, kind: Kind, path: str, root: str) -> Path:
    """Where a file of the warehouse would be in the spool."""
    found = _SEGMENT.fullmatch(path.removeprefix(f"{root}/"))
    # Nothing is called like the other one.
    return lake.spool / (f"{found['run']}/{kind}/{found['phase']}/{found['name']}.parquet" if found else ".none")


def _refuse_older_catalogue(table: Table, files: list[FileInfo]) -> None:
    """A catalogue that was put back from a copy does not know the newest files: they are no orphans."""
    current = _version(table.metadata_location)
    newest = max((_version(file.path) for file in files), default=-1)
    # A commit that failed leaves a file with the number after the one it began from.
    if newest > current + 1:
        raise LakeError(
            f"sweeping the table {'.'.join(table.name())}",
            f"the catalogue knows version {current} of it, and version {newest} is in its folder",
            "The catalogue is older than its files: put the newest copy of it back first.",
        )


def _version(path: str) -> int:
    found = _METADATA.fullmatch(path.rpartition("/")[2])
    return -1 if found is None else int(found["version"])


def _prune(data: Path) -> None:
    """Deletes folders of runs and phases that are empty."""
    for folder in [*data.glob("run_id=*/claim-*/*"), *data.glob("run_id=*/*"), *data.glob("run_id=*")]:
        if folder.is_dir() and not any(folder.iterdir()):
            try:
                folder.rmdir()
            except OSError:
                continue  # somebody put a file there just now


def _sweep_scratch(lake: Lake, limit: datetime, *, dry_run: bool) -> list[FileInfo]:
    """Folders in which a compaction that was killed was at work."""
    from pyarrow.fs import FileSelector, FileType, LocalFileSystem

    scratch = lake.path(lake.warehouse) if lake.local else lake.settings.lake_path
    doomed = []
    for folder in scratch.glob(".compact-*"):
        infos = LocalFileSystem().get_file_info(FileSelector(str(folder), recursive=True))
        times = [datetime.fromtimestamp(folder.stat().st_mtime, UTC), *(info.mtime for info in infos)]
        if max(times) < limit:
            doomed += [info for info in infos if info.type == FileType.File]
            if not dry_run:
                shutil.rmtree(folder)
    return doomed

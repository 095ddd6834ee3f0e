"""How a snapshot of a table is made: files added in one commit, or exchanged for others in one.

Iceberg's list of manifests grows by one with every commit, and every commit and every reader goes through all of it.
Here it stays short: now and then all entries are written anew in the order of their runs, a hundred to a manifest, so
that the files of one run are found in the one manifest that can hold them.

This module knows the insides of pyiceberg, whose version is pinned for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyiceberg import manifest as pm
from pyiceberg.table import TableProperties, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update import RemoveSnapshotsUpdate
from pyiceberg.table.update.snapshot import ExpireSnapshots, _FastAppendFiles, _OverwriteFiles
from pyiceberg.typedef import Record

if TYPE_CHECKING:
    from pyiceberg.table import Table

#: Manifests with few entries before all are put in order, and entries of one manifest then.
_MOST_SMALL = 32
_ENTRIES = 128


@dataclass(frozen=True)
class NewFile:
    """A Parquet file in the warehouse that its table is to have; nothing of it is read."""

    location: str
    run_id: str
    rows: int
    bytes: int


def exchange(
    table: Table,
    *,
    added: Sequence[NewFile] = (),
    deleted: Sequence[pm.DataFile] = (),
    expired: Sequence[int] = (),
) -> None:
    """Adds files that are in the warehouse already, takes others out and forgets snapshots, in one commit.

    Raises:
        ValueError: One of these snapshots is not there any more.
    """
    new = [_entry(file, table.metadata.default_spec_id) for file in added]
    transaction = _Transaction(table)
    with transaction:
        if new and table.metadata.name_mapping() is None:
            # Added files have no field ids: their columns are known by name. In the same commit: one before it would
            # look at the table anew, past a claim or a removal that the caller has not seen.
            mapping = table.schema().name_mapping.model_dump_json()
            transaction.set_properties({TableProperties.DEFAULT_NAME_MAPPING: mapping})
        if deleted:
            producer: Any = _Exchange(Operation.OVERWRITE if new else Operation.DELETE, transaction, table.io)
        else:
            producer = _Append(Operation.APPEND, transaction, table.io)
        with producer:
            for file in new:
                producer.append_data_file(file)
            for file in deleted:
                producer.delete_data_file(file)
        if expired:
            # After the new snapshot: the one that was current may be among them.
            transaction.forget(expired)


def set_property(table: Table, name: str, value: str | None) -> None:
    """Sets a property, or removes one that may be there, together with a snapshot that changes no row.

    A property alone would change nothing that committers compare: one that has looked at the table before would still
    come through.
    """
    with _Transaction(table) as transaction:
        if value is None and name in table.properties:
            transaction.remove_properties(name)
        elif value is not None:
            transaction.set_properties({name: value})
        with _Append(Operation.APPEND, transaction, table.io):
            pass


def expire(table: Table, snapshot_ids: Sequence[int]) -> None:
    """Forgets these snapshots in one commit; a ValueError where one of them is not there."""
    ExpireSnapshots(_Transaction(table, autocommit=True)).by_ids(list(snapshot_ids)).commit()


class _Transaction(Transaction):
    """A transaction that copies the table's metadata once for each change that is looked at, and not at every look."""

    _seen: tuple[Any, Any, TableMetadata] | None = None

    @property
    def table_metadata(self) -> TableMetadata:
        if not self._updates:
            return self._table.metadata
        of = self._table.metadata, self._updates
        if self._seen is None or self._seen[0] is not of[0] or self._seen[1] is not of[1]:
            self._seen = (*of, super().table_metadata)
        return self._seen[2]

    def forget(self, snapshot_ids: Sequence[int]) -> None:
        """Takes snapshots out of the table."""
        self._stage((RemoveSnapshotsUpdate(snapshot_ids=list(snapshot_ids)),))


def _entry(file: NewFile, partition_spec: int) -> pm.DataFile:
    return pm.DataFile.from_args(
        content=pm.DataFileContent.DATA,
        file_path=file.location,
        file_format=pm.FileFormat.PARQUET,
        partition=Record(file.run_id),
        record_count=file.rows,
        file_size_in_bytes=file.bytes,
        spec_id=partition_spec,
    )


class _Ordered:
    """Puts all entries in order when there are many small manifests."""

    def _process_manifests(self: Any, manifests: list[pm.ManifestFile]) -> list[pm.ManifestFile]:
        counts = [_entries(manifest) for manifest in manifests]
        small = sum(count < _ENTRIES // 2 for count in counts)
        if max(counts, default=0) <= 2 * _ENTRIES and small <= max(_MOST_SMALL, sum(counts) // (4 * _ENTRIES)):
            return manifests
        live = [
            entry for manifest in manifests for entry in manifest.fetch_manifest_entry(self._io, discard_deleted=True)
        ]
        live.sort(key=lambda entry: (entry.data_file.partition[0] or "", entry.data_file.file_path))
        return [self._written(live[first : first + _ENTRIES]) for first in range(0, len(live), _ENTRIES)]

    def _written(self: Any, entries: list[pm.ManifestEntry]) -> pm.ManifestFile:
        with self.new_manifest_writer(spec=self._transaction.table_metadata.spec()) as writer:
            for entry in entries:
                new = entry.status == pm.ManifestEntryStatus.ADDED and entry.snapshot_id == self._snapshot_id
                (writer.add if new else writer.existing)(entry)
        manifest: pm.ManifestFile = writer.to_manifest_file()
        return manifest


class _Append(_Ordered, _FastAppendFiles):
    pass


class _Exchange(_Ordered, _OverwriteFiles):
    def _validate_concurrency(self) -> None:
        # Each run has one writer, and whoever exchanges its files looked at them in this very attempt.
        pass


def _entries(manifest: pm.ManifestFile) -> int:
    counts = (manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count)
    return sum(count or 0 for count in counts)

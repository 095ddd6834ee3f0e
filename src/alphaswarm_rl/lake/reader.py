"""The lake as data pipelines are handed it: tables to read, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.lake.catalog import Lake
from alphaswarm_rl.lake.snapshots import read_rows
from alphaswarm_rl.lake.tables import KINDS
from alphaswarm_rl.settings import Settings

if TYPE_CHECKING:
    import pyarrow as pa


class LakeReader:
    """Reads tables of these settings' lake, which is open only meanwhile; a `core.contracts.TableReader`.

    Args:
        settings: Where the lake is.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def read(
        self,
        identifier: str,
        *,
        snapshot_id: int | None = None,
        as_of: str | None = None,
        columns: Sequence[str] | None = None,
        where: Mapping[str, Sequence[Any]] | None = None,
    ) -> tuple[pa.Table, int]:
        """The rows of a table as they are in one snapshot, and that snapshot's id."""
        with Lake(self._settings) as lake:
            name = next((lake.identifier(kind) for kind in KINDS if kind == identifier), identifier)
            rows, read = read_rows(lake, name, snapshot_id=snapshot_id, as_of=as_of, columns=columns, where=where)
        if read is None:
            raise DataError(f"the table {name}", "it has no rows yet", "Append some, or name another table.")
        return rows, read

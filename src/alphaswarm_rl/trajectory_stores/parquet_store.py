"""The open Parquet store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from alphaswarm_rl.core.contracts import StoreRequest
from alphaswarm_rl.lake.catalog import explained
from alphaswarm_rl.lake.delivery import put
from alphaswarm_rl.lake.segments import (
    Segment,
    SegmentName,
    fitted,
    folder_of,
    parts_beside,
    plain_files,
    read_facts,
    remove,
    spooled,
)
from alphaswarm_rl.lake.tables import KINDS, Kind, arrow_schema
from alphaswarm_rl.trajectory_stores.segmented import Delivered, SegmentedStore


class OpenParquetStore(SegmentedStore):
    """Delivers segments by moving them out of the spool."""

    name = "parquet"

    def __init__(self, request: StoreRequest) -> None:
        super().__init__(request, required=True)

    def rows(self, kind: Kind) -> pa.Table:
        """The run's rows."""
        schema = arrow_schema(kind)
        files = sorted(self._files(kind))
        return pa.concat_tables(
            [schema.empty_table(), *(fitted(pq.ParquetFile(file).read(), schema) for file in files)]
        )

    def _files(self, kind: Kind) -> list[Path]:
        return plain_files(self.settings, kind, self.run_id)

    def _send(self, segments: list[Segment]) -> None:
        with explained(f"steps of run {self.run_id}", f"Free space below {self.settings.home}."):
            for segment in segments:
                target = folder_of(self.settings, segment.facts.kind, self.run_id) / segment.facts.phase
                there = {path: SegmentName.parse(path.name) for path in target.glob("*.parquet")}
                # Either is left by a killed process: a merged segment that has this one, or parts of this one.
                if not any(name is not None and name.holds(segment.name) for name in there.values()):
                    put(segment.path, target / segment.path.name)
                remove(parts_beside(target / segment.path.name, segment.name))
        self._request.account(segments)
        # Last of all: what is in the spool is delivered, and told, by the next who comes.
        remove(path for segment in segments for path in (segment.path, *parts_beside(segment.path, segment.name)))

    def _settle(self) -> None:
        """Nothing more to do."""

    def _drop(self, unwanted: Callable[[str, SegmentName], bool]) -> list[Delivered]:
        there = spooled(self.spool, self.run_id, parts=True)
        remove(path for path, name in there.items() if unwanted(path.parent.name, name))
        kept = []
        for kind in KINDS:
            for path in self._files(kind):
                name = SegmentName.parse(path.name)
                if name is not None and unwanted(path.parent.name, name):
                    path.unlink()
                elif name is not None:
                    kept.append(Delivered(kind, path.parent.name, name, read_facts(path).rows))
        return kept

"""The open trajectory stores: what a run writes its steps into."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from alphaswarm_rl.core.contracts import StoreRequest
from alphaswarm_rl.core.types import JsonObject
from alphaswarm_rl.lake.catalog import PATIENCE_S, Lake, explained, of_run
from alphaswarm_rl.lake.claims import announce
from alphaswarm_rl.lake.compaction import compact
from alphaswarm_rl.lake.delivery import deliver, drop, phase_and_name
from alphaswarm_rl.lake.maintenance import expire, expired_by_commit
from alphaswarm_rl.lake.segments import (
    Segment,
    SegmentName,
    fitted,
    folder_of,
    parts_beside,
    plain_files,
    put,
    read_facts,
    remove,
    take_over,
)
from alphaswarm_rl.lake.tables import KINDS, Kind, arrow_schema
from alphaswarm_rl.trajectory_stores.segmented import Delivered, SegmentedStore, unwanted_path

#: Seconds that a commit may take before it is left for later, as long as the run goes on.
_PATIENCE_S = 5.0


class OpenIcebergStore(SegmentedStore):
    """Delivers segments by commits to six tables."""

    name = "iceberg"

    def __init__(self, request: StoreRequest) -> None:
        super().__init__(request, required=request.settings.trajectory.require_iceberg)
        self.lake = Lake(self.settings)
        self._finishes = False
        #: Of what nothing is left to do after the last delivery.
        self._settled: set[Kind] = set()
        if self._required:
            self.lake.catalog  # noqa: B018  (one that does not answer is found out now, and not after the training)
        else:
            # While the run goes on, its loop must not stand still for a catalogue that does not answer.
            self.lake.patience = _PATIENCE_S

    def rows(self, kind: Kind) -> pa.Table:
        """The run's rows that are in the table."""
        return fitted(self.lake.table(kind).scan(row_filter=of_run(self.run_id)).to_arrow(), arrow_schema(kind))

    def finish(self, *, compact: bool) -> None:
        """Takes its time: there is no loop any more that waits."""
        self.lake.patience = PATIENCE_S
        self._finishes = compact
        super().finish(compact=compact)

    def close(self) -> None:
        """Closes the catalogue too."""
        super().close()
        self.lake.close()

    def _names(self, kind: Kind, phase: str) -> set[SegmentName]:
        placed = map(phase_and_name, self.lake.files(self.lake.identifier(kind), self.run_id))
        return {name for place, name in placed if place == phase}

    def _send(self, segments: list[Segment]) -> None:
        account, check = self._request.account, self._request.check
        if self._finishes:
            # In the commits that are made anyway: one of its own costs as much again.
            expired = expired_by_commit(self.lake, self._request.pinned())
            self._settled = deliver(self.lake, segments, account, check=check, expired=expired)
        else:
            deliver(self.lake, segments, account, check=check)

    def _drop(self, unwanted: Callable[[str, SegmentName], bool]) -> list[Delivered]:
        if self.claim.number > 1:
            announce(self.lake, self.claim)
        self._drop_spooled(unwanted)
        drop(self.lake, self.run_id, unwanted, claim=self.claim)
        return [
            Delivered(kind, *phase_and_name(file), file.rows)
            for kind in KINDS
            for file in self.lake.files(self.lake.identifier(kind), self.run_id)
        ]

    def _settle(self) -> None:
        left = [kind for kind in KINDS if kind not in self._settled]
        compact(self.lake, self.claim, left)
        expire(self.lake, self._request.pinned(), kinds=left)


class OpenParquetStore(SegmentedStore):
    """Delivers segments by moving them out of the spool."""

    name = "parquet"

    def __init__(self, request: StoreRequest) -> None:
        super().__init__(request, required=True)

    def rows(self, kind: Kind) -> pa.Table:
        """The run's rows."""
        schema = arrow_schema(kind)
        files = self._files(kind)
        return pa.concat_tables(
            [schema.empty_table(), *(fitted(pq.ParquetFile(file).read(), schema) for file in files)]
        )

    def _names(self, kind: Kind, phase: str) -> set[SegmentName]:
        # Of the newest claim that has files: what earlier ones left is not taken over yet.
        files = plain_files(self.settings, kind, self.run_id)
        parsed = (SegmentName.parse(path.name) for path in files if path.parent.name == phase)
        return {name for name in parsed if name is not None}

    def _files(self, kind: Kind) -> list[Path]:
        return list(plain_files(self.settings, kind, self.run_id, claim=self.claim))

    def _send(self, segments: list[Segment]) -> None:
        with explained(f"steps of run {self.run_id}", f"Free space below {self.settings.home}."):
            for segment in segments:
                root = folder_of(self.settings, segment.facts.kind, self.run_id)
                target = self.claim.folder(root) / segment.facts.phase
                existing = {path: SegmentName.parse(path.name) for path in target.glob("*.parquet")}
                # Either is left by a killed process: a merged segment that has this one, or parts of this one.
                if not any(name is not None and name.holds(segment.name) for name in existing.values()):
                    put(segment.path, target / segment.path.name)
                remove(parts_beside(target / segment.path.name, segment.name))
        self._request.account(segments)
        # Last of all: what is in the spool is delivered, and accounted for, by the next process.
        remove(path for segment in segments for path in (segment.path, *parts_beside(segment.path, segment.name)))

    def _settle(self) -> None:
        """Nothing more to do."""

    def _drop(self, unwanted: Callable[[str, SegmentName], bool]) -> list[Delivered]:
        self._drop_spooled(unwanted)
        kept = []
        for kind in KINDS:
            if self.claim.number > 1:
                root = folder_of(self.settings, kind, self.run_id)
                take_over(root, self.claim, lambda path: unwanted_path(path, unwanted))
            for path in self._files(kind):
                name = SegmentName.parse(path.name)
                if name is not None and unwanted(path.parent.name, name):
                    path.unlink()
                elif name is not None:
                    kept.append(Delivered(kind, path.parent.name, name, read_facts(path).rows))
        return kept


class OpenMemoryStore:
    """Keeps the tables that it is given.

    Args:
        request: Which run.
    """

    def __init__(self, request: StoreRequest) -> None:
        self._run_id = request.run_id
        self._blocks: list[tuple[str, int, Mapping[str, pa.Table]]] = []

    def write(self, phase: str, rows: Mapping[str, pa.Table], timesteps: int) -> None:
        """Keeps rows."""
        self._blocks.append((phase, timesteps, rows))

    def close_segments(self) -> None:
        """Nothing to do: what is in memory is as safe as it will ever be."""

    def deliver(self) -> None:
        """Nothing to do: everything is where it belongs."""

    def drop_after(self, timesteps: int, judged: Collection[tuple[str, int]]) -> None:
        """Forgets later rows. A resumed run begins with none: those before the checkpoint were another process's."""
        self._blocks = [
            (phase, at, rows)
            for phase, at, rows in self._blocks
            if at <= timesteps and (phase == "train" or (phase, at) in judged)
        ]

    def finish(self, *, compact: bool) -> None:
        """Nothing to do."""

    def report(self) -> JsonObject:
        """What the run's row keeps."""
        kinds = dict.fromkeys(kind for _, _, rows in self._blocks for kind in rows)
        counts = {kind: sum(rows[kind].num_rows for _, _, rows in self._blocks if kind in rows) for kind in kinds}
        return {"store": "memory", "rows": counts, "undelivered": 0, "problem": None}

    def rows(self, kind: Kind) -> pa.Table:
        """The run's rows."""
        schema = arrow_schema(kind)
        found = [fitted(rows[kind], schema) for _, _, rows in self._blocks if kind in rows]
        return pa.concat_tables([schema.empty_table(), *found])

    def close(self) -> None:
        """The rows stay for whoever has the store."""

"""The open Iceberg store."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from alphaswarm_rl.core.contracts import StoreRequest
from alphaswarm_rl.lake.catalog import PATIENCE_S, Lake, of_run
from alphaswarm_rl.lake.compaction import compact
from alphaswarm_rl.lake.delivery import deliver, drop, phase_and_name
from alphaswarm_rl.lake.maintenance import expire
from alphaswarm_rl.lake.segments import Segment, SegmentName, fitted
from alphaswarm_rl.lake.tables import KINDS, Kind, arrow_schema
from alphaswarm_rl.trajectory_stores.segmented import Delivered, SegmentedStore

#: Seconds that a commit may take before it is left for later, as long as the run goes on.
_PATIENCE_S = 5.0


class OpenIcebergStore(SegmentedStore):
    """Delivers segments by commits to four tables."""

    name = "iceberg"

    def __init__(self, request: StoreRequest) -> None:
        super().__init__(request, required=request.settings.trajectory.require_iceberg)
        self.lake = Lake(self.settings)
        if self._required:
            self.lake.catalog  # noqa: B018  (one that does not answer is told now, and not after the training)
        else:
            # While the run goes on, its loop must not stand still for a catalogue that does not answer.
            self.lake.patience = _PATIENCE_S

    def rows(self, kind: Kind) -> pa.Table:
        """The run's rows that are in the table."""
        return fitted(self.lake.table(kind).scan(row_filter=of_run(self.run_id)).to_arrow(), arrow_schema(kind))

    def finish(self, *, compact: bool) -> None:
        """Takes its time: there is no loop any more that waits."""
        self.lake.patience = PATIENCE_S
        super().finish(compact=compact)

    def close(self) -> None:
        """Closes the catalogue too."""
        super().close()
        self.lake.close()

    def _send(self, segments: list[Segment]) -> None:
        deliver(self.lake, segments, self._request.account)

    def _drop(self, unwanted: Callable[[str, SegmentName], bool]) -> list[Delivered]:
        drop(self.lake, self.run_id, unwanted)
        return [
            Delivered(kind, *phase_and_name(file), file.rows)
            for kind in KINDS
            for file in self.lake.files(self.lake.identifier(kind), self.run_id)
        ]

    def _settle(self) -> None:
        compact(self.lake, self.run_id)
        expire(self.lake, self._request.pinned())

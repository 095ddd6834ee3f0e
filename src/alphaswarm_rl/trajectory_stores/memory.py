"""Steps in memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.contracts import OpenStore, StoreRequest
from alphaswarm_rl.core.kinds import TrajectoryStore


class InMemoryTrajectoryStore(TrajectoryStore):
    """Every step in memory while the process lives, and nothing on disk."""

    rl_alias = "memory"
    rl_category = "lake"

    class Config(ComponentConfig):
        """Nothing to configure."""

    def build(self, request: StoreRequest) -> OpenStore:
        """The open store."""
        return OpenMemoryStore(request)


class OpenMemoryStore:
    """Keeps the tables that it is given.

    Args:
        request: Which run.
    """

    def __init__(self, request: StoreRequest) -> None:
        self._run_id = request.run_id
        self._blocks: list[tuple[str, int, Mapping[str, Any]]] = []

    def write(self, phase: str, rows: Mapping[str, Any], timesteps: int) -> None:
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

    def report(self) -> dict[str, Any]:
        """What the run's row keeps."""
        kinds = dict.fromkeys(kind for _, _, rows in self._blocks for kind in rows)
        counts = {kind: sum(rows[kind].num_rows for _, _, rows in self._blocks if kind in rows) for kind in kinds}
        return {"store": "memory", "rows": counts, "undelivered": 0, "problem": None}

    def rows(self, kind: str) -> Any:
        """The run's rows."""
        import pyarrow as pa

        from alphaswarm_rl.lake.segments import fitted
        from alphaswarm_rl.lake.tables import arrow_schema

        schema = arrow_schema(kind)  # type: ignore[arg-type]
        found = [fitted(rows[kind], schema) for _, _, rows in self._blocks if kind in rows]
        return pa.concat_tables([schema.empty_table(), *found])

    def close(self) -> None:
        """The rows stay for whoever has the store."""

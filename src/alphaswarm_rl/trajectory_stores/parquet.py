"""Steps in plain Parquet files."""

from __future__ import annotations

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.contracts import OpenStore, StoreRequest
from alphaswarm_rl.core.kinds import TrajectoryStore


class ParquetTrajectoryStore(TrajectoryStore):
    """Every step in plain Parquet files below the home, in one folder per table and run, without a catalogue."""

    rl_alias = "parquet"
    rl_category = "lake"

    class Config(ComponentConfig):
        """Nothing to configure: where the home is, is a setting."""

    def build(self, request: StoreRequest) -> OpenStore:
        """The open store."""
        from alphaswarm_rl.trajectory_stores.parquet_store import OpenParquetStore

        return OpenParquetStore(request)

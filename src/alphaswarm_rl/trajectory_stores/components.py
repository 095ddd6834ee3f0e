"""The trajectory stores: Iceberg tables, plain Parquet files, or memory."""

from __future__ import annotations

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.contracts import OpenStore, StoreRequest
from alphaswarm_rl.core.kinds import TrajectoryStore


class IcebergTrajectoryStore(TrajectoryStore):
    """Every step in four Iceberg tables, partitioned by run, each row exactly once.

    Segments of the run are written to the spool below the home and committed many at a time. When a commit fails, they
    stay there and the run goes on, unless `trajectory.require_iceberg` says that it must not.
    """

    rl_alias = "iceberg"
    rl_category = "lake"

    class Config(ComponentConfig):
        """Nothing to configure: where the tables are is a setting."""

    def build(self, request: StoreRequest) -> OpenStore:
        """The open store."""
        from alphaswarm_rl.trajectory_stores.open_stores import OpenIcebergStore

        return OpenIcebergStore(request)


class ParquetTrajectoryStore(TrajectoryStore):
    """Every step in plain Parquet files below the home, in one folder per table and run, without a catalogue."""

    rl_alias = "parquet"
    rl_category = "lake"

    class Config(ComponentConfig):
        """Nothing to configure: where the home is, is a setting."""

    def build(self, request: StoreRequest) -> OpenStore:
        """The open store."""
        from alphaswarm_rl.trajectory_stores.open_stores import OpenParquetStore

        return OpenParquetStore(request)


class InMemoryTrajectoryStore(TrajectoryStore):
    """Every step in memory while the process lives, and nothing on disk."""

    rl_alias = "memory"
    rl_category = "lake"

    class Config(ComponentConfig):
        """Nothing to configure."""

    def build(self, request: StoreRequest) -> OpenStore:
        """The open store."""
        from alphaswarm_rl.trajectory_stores.open_stores import OpenMemoryStore

        return OpenMemoryStore(request)

"""The trajectory stores: Iceberg tables, plain Parquet files, or memory."""

from __future__ import annotations

from typing import ClassVar

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.contracts import OpenStore, StoreRequest
from alphaswarm_rl.core.kinds import TrajectoryStore


class LakeStore(TrajectoryStore):
    """The base of our stores: segments of rows, closed as training goes on."""

    rl_category = "lake"
    #: The class in `open_stores`, which loads pyarrow; this module does not.
    store_class: ClassVar[str]

    def build(self, request: StoreRequest) -> OpenStore:
        """The open store."""
        from alphaswarm_rl.trajectory_stores import open_stores

        store: OpenStore = getattr(open_stores, self.store_class)(request)
        return store


class IcebergTrajectoryStore(LakeStore):
    """Every step in six Iceberg tables, partitioned by run, each row exactly once.

    Segments of the run are written to the spool below the home and committed many at a time. When a commit fails, they
    stay there and the run goes on, unless `trajectory.require_iceberg` says that it must not.
    """

    rl_alias = "iceberg"
    store_class = "OpenIcebergStore"

    class Config(ComponentConfig):
        """Nothing to configure: where the tables are is a setting."""


class ParquetTrajectoryStore(LakeStore):
    """Every step in plain Parquet files below the home, in one folder per table and run, without a catalogue.

    Whatever reads Parquet reads them; nothing compacts them or keeps their history.
    """

    rl_alias = "parquet"
    store_class = "OpenParquetStore"

    class Config(ComponentConfig):
        """Nothing to configure: where the home is, is a setting."""


class InMemoryTrajectoryStore(LakeStore):
    """Every step in memory while the process lives, and nothing on disk."""

    rl_alias = "memory"
    store_class = "OpenMemoryStore"

    class Config(ComponentConfig):
        """Nothing to configure."""

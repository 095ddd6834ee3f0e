"""Steps in Iceberg tables."""

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
        from alphaswarm_rl.trajectory_stores.iceberg_store import OpenIcebergStore

        return OpenIcebergStore(request)

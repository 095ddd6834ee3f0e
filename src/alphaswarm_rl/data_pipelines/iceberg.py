"""Bars from a table of the lake."""

from __future__ import annotations

from alphaswarm_rl.data_pipelines.lake_source import LakeConfig, LakePipeline


class IcebergPipeline(LakePipeline):
    """Bars from any Iceberg table of the lake's catalogue, as it is now or as it was.

    Without `snapshot_id` and `as_of` the newest snapshot is read. A run pins the fingerprint of its bars all the same:
    it is not resumed after they changed.
    """

    rl_alias = "iceberg"
    rl_category = "lake"
    rl_source = "pyiceberg"

    class Config(LakeConfig):
        """Parameters of a table."""

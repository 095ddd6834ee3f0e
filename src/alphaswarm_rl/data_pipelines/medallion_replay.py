"""Bars for replays: refined tables alone, pinned, and compared with what they were."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pydantic import Field, model_validator

from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.data_pipelines.lake_source import LakeConfig, LakePipeline

if TYPE_CHECKING:
    from alphaswarm_rl.core.contracts import DataRequest
    from alphaswarm_rl.market.panel import MarketPanel


class DeterministicMedallionReplay(LakePipeline):
    """Bars from a table of the silver or gold layer, pinned to one snapshot; nothing is ever written.

    The layer is a word of the table's namespace or name, such as `silver.bars` or `alphaswarm_gold_equities.daily`. A
    table of the bronze layer is refused: it holds what sources sent, unchecked, and may be loaded anew.
    """

    rl_alias = "medallion_replay"
    rl_category = "lake"
    rl_source = "pyiceberg"

    class Config(LakeConfig):
        """Parameters of a pinned table."""

        fingerprint: str | None = Field(
            None,
            pattern=r"^[0-9a-f]{64}$",
            description="Fingerprint of all the table's bars, which they must have; null: it is not compared.",
        )

        @model_validator(mode="after")
        def _refined_and_pinned(self) -> DeterministicMedallionReplay.Config:
            tables = {"table": self.table, "vix_table": self.vix_table, "fundamentals": self.fundamentals}
            for parameter, name in tables.items():
                if name is not None:
                    _refuse_unrefined(parameter, name)
            if self.snapshot_id is None and self.as_of is None:
                raise ValueError("a replay is pinned: give snapshot_id or as_of")
            return self

    def load(self, request: DataRequest) -> MarketPanel:
        """All bars of the snapshot; others than those of `fingerprint` are refused."""
        panel = super().load(request)
        expected = self.config.fingerprint
        if expected is not None and panel.fingerprint != expected:
            raise DataError(
                f"the table {self.config.table}",
                f"its bars have the fingerprint {panel.fingerprint}, not {expected}",
                "Pin the snapshot that has it, with the same columns; or write the new one down.",
            )
        return panel


def _refuse_unrefined(parameter: str, name: str) -> None:
    words = re.split(r"[^a-z0-9]+", name.lower())
    if "bronze" in words:
        raise ValueError(f"{parameter}: {name!r} is of the bronze layer, which is raw and may be loaded anew")
    if not {"silver", "gold"} & set(words):
        raise ValueError(
            f"{parameter}: {name!r} says no layer: its namespace or name must have the word silver or gold"
        )

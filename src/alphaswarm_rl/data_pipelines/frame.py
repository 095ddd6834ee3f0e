"""Bars from a data frame that the caller hands in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field, model_validator

from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.data_pipelines.pipeline import PanelPipeline
from alphaswarm_rl.data_pipelines.source import TableConfig, panel_of_table, series_of_table

if TYPE_CHECKING:
    import pandas as pd

    from alphaswarm_rl.core.contracts import DataRequest
    from alphaswarm_rl.core.types import Array
    from alphaswarm_rl.market.panel import MarketPanel


class FramePipeline(PanelPipeline):
    """Bars from a pandas frame or Arrow table that is handed in by name; replay needs it handed in again."""

    rl_alias = "frame"
    rl_category = "memory"

    class Config(TableConfig):
        """Parameters of a frame."""

        name: str = Field(min_length=1, description="Name under which the frame is handed in.")
        vix_name: str | None = Field(
            None, description="Name of a frame with the columns date and close for the market feature vix."
        )

        @model_validator(mode="after")
        def _vix_is_used(self) -> FramePipeline.Config:
            if (self.vix_name is not None) != ("vix" in self.market_features):
                raise ValueError("vix_name and the market feature vix go together: give both or none")
            return self

    def load(self, request: DataRequest) -> MarketPanel:
        """All bars of the frame."""
        return panel_of_table(_named(self.config.name, request), self.config)

    def load_vix(self, request: DataRequest) -> tuple[Array, Array]:
        """The series of the frame `vix_name`."""
        return series_of_table(_named(self.config.vix_name, request))

    def load_fundamentals(self, request: DataRequest) -> pd.DataFrame | None:
        """The table of the frame `fundamentals`."""
        name = self.config.fundamentals
        return None if name is None else _named(name, request)


def _named(name: str, request: DataRequest) -> pd.DataFrame:
    if name not in request.frames:
        known = ", ".join(sorted(request.frames)) or "none"
        raise DataError(
            f"the frame {name!r}",
            f"no frame of that name was handed in; there are: {known}",
            f"Hand it in: RLRuntime(spec, frames={{{name!r}: frame}}).",
        )
    frame = request.frames[name]
    return frame.to_pandas(date_as_object=False) if hasattr(frame, "to_pandas") else frame

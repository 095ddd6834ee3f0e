"""Bars from a data frame that the caller hands in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.data_pipelines.source import TableConfig, TablePipeline

if TYPE_CHECKING:
    import pandas as pd

    from alphaswarm_rl.core.contracts import DataRequest


class FramePipeline(TablePipeline):
    """Bars from a pandas frame or Arrow table that is handed in by name; replay needs it handed in again."""

    rl_alias = "frame"
    rl_category = "memory"

    class Config(TableConfig):
        """Parameters of a frame."""

        bars_field = "name"
        vix_field = "vix_name"

        name: str = Field(min_length=1, description="Name under which the frame is handed in.")
        vix_name: str | None = Field(
            None, description="Name of a frame with the columns date and close for the market feature vix."
        )

    def table(self, name: str, request: DataRequest) -> pd.DataFrame:
        """The frame of that name."""
        if name not in request.frames:
            known = ", ".join(sorted(request.frames)) or "none"
            raise DataError(
                f"the frame {name!r}",
                f"no frame of that name was handed in; there are: {known}",
                f"Hand it in: RLRuntime(spec, frames={{{name!r}: frame}}).",
            )
        frame = request.frames[name]
        return frame.to_pandas(date_as_object=False) if hasattr(frame, "to_pandas") else frame

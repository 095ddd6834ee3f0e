"""Parameters of pipelines over files."""

from __future__ import annotations

from pydantic import Field, model_validator

from alphaswarm_rl.data_pipelines.source import TableConfig


class FileConfig(TableConfig):
    """Parameters of a pipeline over a file."""

    path: str = Field(min_length=1, description="The file, relative to the data folder.")
    vix_path: str | None = Field(None, description="File with the columns date and close for the market feature vix.")

    @model_validator(mode="after")
    def _vix_is_used(self) -> FileConfig:
        if (self.vix_path is not None) != ("vix" in self.market_features):
            raise ValueError("vix_path and the market feature vix go together: give both or none")
        return self

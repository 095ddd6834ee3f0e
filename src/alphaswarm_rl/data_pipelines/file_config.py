"""Parameters of pipelines over files."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, model_validator

from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.data_pipelines.source import TableConfig, below


class FileConfig(TableConfig):
    """Parameters of a pipeline over a file."""

    path: str = Field(min_length=1, description="The file, relative to the data folder.")
    vix_path: str | None = Field(None, description="File with the columns date and close for the market feature vix.")

    @model_validator(mode="after")
    def _vix_is_used(self) -> FileConfig:
        if (self.vix_path is not None) != ("vix" in self.market_features):
            raise ValueError("vix_path and the market feature vix go together: give both or none")
        return self


def existing_file(root: Path, path: str) -> Path:
    """The file of that path below the data folder; one that is not there is refused with the folder's name."""
    file = below(root, path)
    if not file.is_file():
        raise DataError(
            f"the file {path!r}",
            f"it is not there; it was looked for below {str(root.absolute())!r}",
            "Check the path, or set the folder with --data-root (settings: data.root).",
        )
    return file

"""Bars from files: CSV and Parquet."""

from __future__ import annotations

import abc
from pathlib import Path, PurePosixPath
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


class FileConfig(TableConfig):
    """Parameters of a pipeline over a file."""

    path: str = Field(min_length=1, description="The file, relative to the data folder.")
    vix_path: str | None = Field(None, description="File with the columns date and close for the market feature vix.")

    @model_validator(mode="after")
    def _vix_is_used(self) -> FileConfig:
        if (self.vix_path is not None) != ("vix" in self.market_features):
            raise ValueError("vix_path and the market feature vix go together: give both or none")
        return self


class FilePipeline(PanelPipeline):
    """Bars from a file below the data folder; the base of those that read one."""

    @abc.abstractmethod
    def read(self, file: Path) -> pd.DataFrame:
        """The table of a file."""

    def load(self, request: DataRequest) -> MarketPanel:
        """All bars of the file."""
        return panel_of_table(self.read(existing_file(request.root, self.config.path)), self.config)

    def load_vix(self, request: DataRequest) -> tuple[Array, Array]:
        """The series of `vix_path`."""
        return series_of_table(self.read(existing_file(request.root, self.config.vix_path)))

    def load_fundamentals(self, request: DataRequest) -> pd.DataFrame | None:
        """The table of the file `fundamentals`."""
        path = self.config.fundamentals
        return None if path is None else self.read(existing_file(request.root, path))


class CsvPipeline(FilePipeline):
    """Bars from a CSV file, one row per bar and asset, or closes with one column per asset."""

    rl_alias = "csv"
    rl_category = "files"

    class Config(FileConfig):
        """Parameters of a CSV file."""

    def read(self, file: Path) -> pd.DataFrame:
        """The table of a CSV file."""
        from alphaswarm_rl.market.panel_columns import read_csv

        return read_csv(file)


class ParquetPipeline(FilePipeline):
    """Bars from a Parquet file, one row per bar and asset, or closes with one column per asset."""

    rl_alias = "parquet"
    rl_category = "files"

    class Config(FileConfig):
        """Parameters of a Parquet file."""

    def read(self, file: Path) -> pd.DataFrame:
        """The table of a Parquet file."""
        from alphaswarm_rl.market.panel_columns import read_parquet

        return read_parquet(file)


def existing_file(root: Path, path: str) -> Path:
    """The file of that path below the data folder; one that is not there is refused with the folder's name."""
    file = _below(root, path)
    if not file.is_file():
        raise DataError(
            f"the file {path!r}",
            f"it is not there; it was looked for below {str(root.absolute())!r}",
            "Check the path, or set the folder with --data-root (settings: data.root).",
        )
    return file


def _below(root: Path, path: str) -> Path:
    """The file of that relative path below the root; a path that leads out of it is refused."""
    pure = PurePosixPath(path)
    if pure.is_absolute() or Path(path).is_absolute() or ".." in pure.parts or not pure.parts:
        raise DataError(
            f"the path {path!r}", "it leads out of the data folder", "Write it relative to that folder, without '..'."
        )
    return root / pure

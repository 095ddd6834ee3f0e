"""Bars from files: CSV and Parquet."""

from __future__ import annotations

import abc
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.core.files import checked_path
from alphaswarm_rl.core.hashing import added_field
from alphaswarm_rl.data_pipelines.source import TableConfig, TablePipeline

if TYPE_CHECKING:
    import pandas as pd

    from alphaswarm_rl.core.contracts import DataRequest


class FileConfig(TableConfig):
    """Parameters of a pipeline over a file."""

    bars_field = "path"
    vix_field = "vix_path"

    path: str = Field(min_length=1, description="The file, relative to the data folder.")
    vix_path: str | None = Field(None, description="File with the columns date and close for the market feature vix.")


class FilePipeline(TablePipeline):
    """Bars from a file below the data folder; the base of those that read one."""

    rl_category = "files"

    class Config(FileConfig):
        """Parameters of a file."""

    @abc.abstractmethod
    def read(self, file: Path, root: Path) -> pd.DataFrame:
        """The table of a file that lies below the data folder."""

    def table(self, name: str, request: DataRequest) -> pd.DataFrame:
        """The table of the file at that path."""
        return self.read(existing_file(request.root, name), request.root)


class CsvPipeline(FilePipeline):
    """Bars from a CSV file, one row per bar and asset, or closes with one column per asset."""

    rl_alias = "csv"

    class Config(FileConfig):
        """Parameters of a CSV file."""

        separator: Literal[",", ";", "|", "tab"] = Field(
            ",",
            description="What separates the cells, in the file and in those of the VIX and of fundamentals.",
            json_schema_extra=added_field(since=2, born=","),
        )
        decimal: Literal[".", ","] = Field(
            ".", description="The decimal sign of its numbers.", json_schema_extra=added_field(since=2, born=".")
        )

        @model_validator(mode="after")
        def _signs_differ(self) -> Self:
            if self.separator == self.decimal:
                raise ValueError("separator and decimal are both ',': nobody can tell cells from numbers")
            return self

    def read(self, file: Path, root: Path) -> pd.DataFrame:
        """The table of a CSV file."""
        from alphaswarm_rl.market.panel_columns import read_csv

        config = self.config
        signs = {"separator": config.separator, "decimal": config.decimal}
        return read_csv(file, below=root, text=config.text_columns, **signs)


class ParquetPipeline(FilePipeline):
    """Bars from a Parquet file, one row per bar and asset, or closes with one column per asset."""

    rl_alias = "parquet"

    def read(self, file: Path, root: Path) -> pd.DataFrame:
        """The table of a Parquet file."""
        from alphaswarm_rl.market.panel_columns import read_parquet

        return read_parquet(file, below=root)


def existing_file(root: Path, path: str) -> Path:
    """The file of that path below the data folder; one that is not there is refused with the folder's name."""
    file = _below(root, path)
    try:
        exists = checked_path(file).exists()
    except (ValueError, OSError) as error:
        raise DataError(f"the file {path!r:.200}", str(error), "Check the path.") from error
    if not exists:
        why = f"it is not there; it was looked for below {str(root.absolute())!r}"
        remedy = "Check the path, or set the folder with --data-root (settings: data.root)."
        raise DataError(f"the file {path!r}", why, remedy)
    return file


def _below(root: Path, path: str) -> Path:
    """The file of that path, relative to the root or absolute and inside of it; one that leads out is refused."""
    pure = PurePosixPath(path)
    inside = [] if ".." in pure.parts or not pure.parts else [pure]
    if pure.is_absolute() or Path(path).is_absolute():
        # The folder itself may be named through a link, as temporary ones often are.
        names = (root.absolute(), root.resolve())
        inside = [pure.relative_to(name) for name in names if inside and pure.is_relative_to(name)]
    if not inside or not inside[0].parts:
        raise DataError(
            f"the path {path!r}",
            f"it leads out of the data folder {str(root.absolute())!r}",
            "Write it relative to that folder, without '..', or set the folder with --data-root (settings: data.root).",
        )
    return root / inside[0]

"""Bars in files, read as pandas frames."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.market.panel_columns import canonical


def read_csv(path: Path) -> Any:
    """The frame of a CSV file; numbers are read exactly, and symbols such as NA, ON or 0700 stay text."""
    import pandas as pd

    _exists(path)
    try:
        header = pd.read_csv(path, nrows=0)
        text = {name: str for name in header.columns if canonical(name) in ("asset", "timestamp")}
        return pd.read_csv(
            path,
            dtype=text,
            keep_default_na=False,
            na_values={name: ["", "nan", "NaN", "NA", "null", "None"] for name in header.columns if name not in text},
        )
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise DataError(f"the file {str(path)!r}", f"it is not CSV: {error}", "Check the file.") from error


def read_parquet(path: Path) -> Any:
    """The frame of a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    _exists(path)
    try:
        return pq.read_table(path).to_pandas(date_as_object=False)
    except pa.ArrowInvalid as error:
        raise DataError(f"the file {str(path)!r}", f"it is not Parquet: {error}", "Check the file.") from error


def _exists(path: Path) -> None:
    if not path.is_file():
        raise DataError(f"the file {str(path)!r}", "it is not there", "Check the path.")

"""Columns of a pandas frame as plain arrays: moments in UTC, numbers, flags."""

from __future__ import annotations

from typing import Any

import numpy as np

from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.market.panel import Array

_FLAGS = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}
_ZONE = r"(Z|[+-]\d\d:?\d\d)$"


def utc_of(column: Any, name: str) -> Array:
    """Moments of a column in UTC, datetime64[ns]; moments without a zone are UTC already.

    Moments of more than one zone, or with and without one, are refused: nobody can tell which of them is meant.
    """
    import pandas as pd

    if pd.api.types.is_numeric_dtype(column.dtype):
        raise DataError(
            f"column {name!r}",
            f"its type is {column.dtype}, and a number is not a moment",
            "Convert it, such as pandas.to_datetime(column, unit='s').",
        )
    if not pd.api.types.is_datetime64_any_dtype(column.dtype):
        _refuse_mixed_zones(column, name)
        parsed = pd.to_datetime(column, format="ISO8601", utc=True, errors="coerce")
        bad = np.flatnonzero((parsed.isna() & column.notna()).to_numpy())
        if len(bad):
            raise DataError(
                f"row {bad[0]}, column {name!r}",
                f"{column.iloc[bad[0]]!r} is not a date in ISO form",
                "Write it as 2017-06-30, or convert the column with pandas.to_datetime.",
            )
        column = parsed
    missing = np.flatnonzero(column.isna().to_numpy())
    if len(missing):
        raise DataError(f"row {missing[0]}, column {name!r}", "the moment is missing", "Leave the row out.")
    if column.dt.tz is not None:
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    return np.asarray(column.to_numpy(), dtype="datetime64[ns]")


def _refuse_mixed_zones(column: Any, name: str) -> None:
    if len(column) == 0:
        return
    text = column.map(lambda value: isinstance(value, str))
    zones = column.map(lambda value: str(getattr(value, "tzinfo", None) or ""))
    if text.any():
        written = column[text]
        timed = written.str.contains(":", regex=False)
        zones = zones.astype(object)
        zones[text] = ""
        zones.loc[written.index[timed]] = written[timed].str.extract(_ZONE, expand=False).fillna("")
    first, other = zones.iloc[0], zones[(zones != zones.iloc[0]) & column.notna()]
    if len(other):
        row = int(np.flatnonzero((zones != first).to_numpy())[0])
        raise DataError(
            f"row {row}, column {name!r}",
            f"mixed time zones: {column.iloc[row]!s} has {zones.iloc[row] or 'none'}, the first row {first or 'none'}",
            "Convert all to UTC first, such as pandas.to_datetime(column, utc=True).",
        )


def numbers_of(column: Any, name: str) -> Array:
    """Numbers of a column, float64; empty is NaN."""
    import pandas as pd

    if pd.api.types.is_bool_dtype(column.dtype) or pd.api.types.is_datetime64_any_dtype(column.dtype):
        raise DataError(f"column {name!r}", f"its type is {column.dtype}, not a number", "Convert it.")
    values = pd.to_numeric(column, errors="coerce")
    bad = np.flatnonzero((values.isna() & column.notna()).to_numpy())
    if len(bad):
        raise DataError(f"row {bad[0]}, column {name!r}", f"{column.iloc[bad[0]]!r} is not a number", "Mend it.")
    return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))


def flags_of(column: Any, name: str) -> Array:
    """Flags of a column: true and false, or 1 and 0."""
    import pandas as pd

    if pd.api.types.is_bool_dtype(column.dtype) and not column.isna().any():
        return np.asarray(column.to_numpy(), dtype=np.bool_)
    flags = column.astype(str).str.lower().map(_FLAGS)
    bad = np.flatnonzero(flags.isna().to_numpy())
    if len(bad):
        raise DataError(
            f"row {bad[0]}, column {name!r}", f"{column.iloc[bad[0]]!r} is neither true nor false", "Mend it."
        )
    return np.asarray(flags.to_numpy(), dtype=np.bool_)

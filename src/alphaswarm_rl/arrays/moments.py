"""Moments in time as NumPy has them: UTC, in nanoseconds."""

from __future__ import annotations

from datetime import UTC, date, datetime

import numpy as np

from alphaswarm_rl.core.errors import DataError

#: What a user may write for a moment. Text is ISO; without a zone it is UTC.
Moment = str | date | np.datetime64

#: Years that nanoseconds in 64 bits hold; a date beyond them is beyond all data too.
_FIRST_YEAR, _LAST_YEAR = 1678, 2261


def moment(value: Moment) -> np.datetime64:
    """The moment in UTC, in nanoseconds; a date is its midnight, and a time without a zone is UTC."""
    if isinstance(value, np.datetime64):
        exact: np.datetime64 = value.astype("datetime64[ns]")
        return exact
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError as error:
            raise DataError(f"the date {value!r}", "it is not a date in ISO form", "Write it as 2017-06-30.") from error
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    if value.year < _FIRST_YEAR:
        return np.datetime64(f"{_FIRST_YEAR}-01-01", "ns")
    if value.year > _LAST_YEAR:
        return np.datetime64(f"{_LAST_YEAR}-12-31", "ns")
    return np.datetime64(value, "ns")


def shown(value: np.datetime64) -> str:
    """The moment as text, without a time of day where it is midnight."""
    text = str(value.astype("datetime64[s]"))
    return text.removesuffix("T00:00:00")

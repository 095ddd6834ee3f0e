"""Facts about assets, such as fundamentals, as they were known at each bar."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from alphaswarm_rl.arrays.moments import shown
from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.market.panel import Array, MarketPanel


def join_as_of(panel: MarketPanel, asset_ids: Sequence[str] | Array, available_from: Any, values: Any) -> Array:
    """The newest value that was available at the close of each bar.

    A row counts from the first bar with `known_at >= available_from`, until a later row of its asset replaces it. Rows
    may come in any order; those of other assets are left aside.

    Args:
        panel: The bars.
        asset_ids: Asset of each row.
        available_from: The moment from which it can be known, UTC.
        values: Its value; NaN is no value and replaces nothing.

    Returns:
        (T, A) float64, NaN before the first value of an asset.
    """
    ids = np.asarray(asset_ids, dtype=object)
    when = np.asarray(available_from, dtype="datetime64[ns]")
    numbers = np.asarray(values, dtype=np.float64)
    if not ids.shape == when.shape == numbers.shape or ids.ndim != 1:
        raise DataError(
            "the joined rows",
            f"they have {ids.shape} assets, {when.shape} moments and {numbers.shape} values",
            "Give one of each per row.",
        )
    out = np.full(panel.close.shape, np.nan)
    for column, asset in enumerate(panel.assets):
        rows = np.flatnonzero((ids == asset) & ~np.isnan(numbers))
        rows = rows[np.argsort(when[rows], kind="stable")]
        moments = when[rows]
        _refuse_rivals(rows, moments, asset)
        newest = np.searchsorted(moments, panel.known_at, side="right") - 1
        out[:, column] = np.where(newest >= 0, np.append(numbers[rows], np.nan)[newest], np.nan)
    return out


def _refuse_rivals(rows: Array, moments: Array, asset: str) -> None:
    """Nobody can tell which of two rows of one moment is right."""
    twice = np.flatnonzero(moments[1:] == moments[:-1])
    if len(twice):
        first, second = rows[twice[0]], rows[twice[0] + 1]
        raise DataError(
            f"rows {first} and {second} (asset {asset!r}, {shown(moments[twice[0]])})",
            "two values became available at one moment",
            "Keep one of them.",
        )

"""FinRL's steps as plain functions: clean a frame, split it by time, turn a panel into its three arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from alphaswarm_rl.arrays.moments import Moment, moment
from alphaswarm_rl.core.errors import DataError, nearest
from alphaswarm_rl.core.types import Array
from alphaswarm_rl.market.panel import MarketPanel
from alphaswarm_rl.market.panel_columns import by_meaning, canonical, flat, utc_of

if TYPE_CHECKING:
    import pandas as pd


class TradingArrays(NamedTuple):
    """What FinRL calls the result of df_to_array.

    Attributes:
        price: Closes, (T, N).
        tech: Features, (T, N * K): all features of the first asset, then all of the second, and so on.
        turbulence: The risk measure, (T,).
    """

    price: Array
    tech: Array
    turbulence: Array


def clean(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with canonical column names and UTC moments, sorted by time and asset.

    Nothing is filled and no asset is dropped: gaps are the panel's business. A bar that is there twice is an error, as
    nobody can tell which of the two is right.
    """
    frame = flat(frame)
    columns = by_meaning(frame.columns)
    for meaning in ("timestamp", "asset"):
        if meaning not in columns:
            raise DataError(f"column {meaning!r}", "the data has no such column", "Rename a column.")
    frame = frame.assign(**{str(columns["timestamp"]): utc_of(frame[columns["timestamp"]], str(columns["timestamp"]))})
    frame = frame.rename(columns={name: canonical(name) for name in columns.values()})
    repeated = np.flatnonzero(frame.duplicated(["timestamp", "asset"]).to_numpy())
    if len(repeated):
        row = frame.iloc[repeated[0]]
        raise DataError(
            f"row {repeated[0]} (asset {row['asset']!r}, {row['timestamp']})",
            "the bar is there twice",
            "Keep one of them.",
        )
    return frame.sort_values(["timestamp", "asset"], kind="stable", ignore_index=True)


def time_split(frame: pd.DataFrame, start: Moment | None, end: Moment | None) -> pd.DataFrame:
    """The rows with start <= timestamp < end; the index starts at 0."""
    columns = by_meaning(frame.columns)
    if "timestamp" not in columns:
        raise DataError("column 'timestamp'", "the data has no such column", "Rename a column.")
    times = utc_of(frame[columns["timestamp"]], str(columns["timestamp"]))
    kept = np.ones(len(times), dtype=bool)
    if start is not None:
        kept &= times >= moment(start)
    if end is not None:
        kept &= times < moment(end)
    return frame[kept].reset_index(drop=True)


def df_to_array(panel: MarketPanel, risk: str = "turbulence") -> TradingArrays:
    """The three arrays of FinRL's numpy environments.

    Args:
        panel: Bars with their features.
        risk: Which market feature is the risk measure: turbulence or vix.
    """
    if risk not in panel.market_feature_names:
        raise DataError(
            f"market feature {risk!r}", "the panel has no such feature", nearest(risk, panel.market_feature_names)
        )
    return TradingArrays(
        price=panel.close,
        tech=panel.features.reshape(panel.num_bars, -1),
        turbulence=panel.market_features[:, panel.market_feature_names.index(risk)],
    )

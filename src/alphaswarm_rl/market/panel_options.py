"""What the constructors of a panel may be told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict

FeatureType = Literal["float32", "float64"]


class PanelOptions(TypedDict, total=False):
    """Facts about the bars that no column says.

    Attributes:
        adjusted: Whether prices already contain dividends and splits. Default: False.
        periods_per_year: Bars in a year. Default: judged by `market.calendar.periods_per_year`.
        stamp: Whether a timestamp labels the open or the close of its bar. Default: `open`.
        feature_dtype: Type of the features. Default: `float32`.
        training_only: Names of features made with hindsight. Default: none.
    """

    adjusted: bool
    periods_per_year: float | None
    stamp: Literal["open", "close"]
    feature_dtype: FeatureType
    training_only: Sequence[str]


class FrameOptions(PanelOptions, total=False):
    """What a frame with one row per bar and asset needs beside that.

    Attributes:
        asset: Name of the only asset, where the frame has no column of names.
        assets: The assets to take, in this order. Default: all, sorted by name.
        features: Columns to take as features. Default: none; other columns are left where they are.
        market_features: Columns to take as features of the market; all assets must agree on them. Default: none.
        adjust: Whether open, high, low and close are scaled by adjusted close over close, which makes the panel
            adjusted and leaves dividends and splits out. Default: False.
    """

    asset: str | None
    assets: Sequence[str] | None
    features: Sequence[str]
    market_features: Sequence[str]
    adjust: bool

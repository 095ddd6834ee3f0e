"""The panel: every bar of every asset as arrays, stored once and never changed.

Its fingerprint is SHA-256 over canonical bytes: two panels have one fingerprint exactly when they hold the same names,
times and numbers; how they lie in memory, and what they were read from, plays no part. The bytes are, in this order:
the line `alphaswarm-rl/panel/1`; one line of JSON with sorted keys that holds names, flags and the shape of every array
(null where it is absent); the arrays in the order of `ARRAYS`, row by row, little-endian, with every NaN in one form
and no negative zero.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

import numpy as np

from alphaswarm_rl.arrays.moments import Moment, moment, shown
from alphaswarm_rl.core.errors import DataError, nearest
from alphaswarm_rl.core.types import Array
from alphaswarm_rl.market.calendar import known_at

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from alphaswarm_rl.market.panel_build import PanelArrays

Stamp = Literal["open", "close"]
FeatureType = Literal["float32", "float64"]

#: An agent acts at one bar and is filled at the next.
FEWEST_BARS = 2
#: Columns of prices and amounts, (T, A) float64 each.
BAR_COLUMNS = ("close", "open", "high", "low", "volume", "dividends", "splits")
#: Arrays with an asset axis behind the time axis, and all that have a time axis.
_BY_ASSET = (*BAR_COLUMNS, "tradable", "features")
_BY_TIME = ("timestamps", *_BY_ASSET, "market_features")
#: Arrays of a panel in the order in which they are hashed.
ARRAYS = (
    "timestamps",
    *BAR_COLUMNS,
    "tradable",
    "last_bar",
    "features",
    "feature_from",
    "market_features",
    "market_feature_from",
)
_FINGERPRINT_HEADER = b"alphaswarm-rl/panel/1\n"
#: Rows turned into bytes at a time, so that hashing needs no second copy of a large panel.
_FINGERPRINT_ROWS = 4096


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


@dataclass(frozen=True, eq=False, kw_only=True)
class MarketPanel:
    """Bars of A assets at T moments, with K features per asset and M features of the whole market.

    All of bar t is known at the close of bar t and not before. Arrays are read-only. Where an asset has no bar its last
    close is carried forward, for marking only; nothing is ever filled from the future. Panels are made by the `from_*`
    constructors, which check the data, and cut by `window` and `select`.

    Attributes:
        timestamps: Labels of the bars, (T,) datetime64[ns], UTC, strictly increasing.
        assets: Names of the A assets.
        close: Closing prices, (T, A) float64. NaN before an asset's first bar, carried forward over gaps and after its
            last bar.
        tradable: Where an asset has a bar that is not flagged, (T, A) bool. Elsewhere it can only be marked.
        last_bar: Index of each asset's final bar, (A,) int64. An asset ends inside this panel where it is below T - 1;
            -1 says that it ended before the panel starts.
        open: Opening prices, (T, A) float64; at a gap the carried close, as are high and low.
        high: Highest prices.
        low: Lowest prices.
        volume: Units traded, 0 at a gap.
        dividends: Cash per share that goes ex at bar t, 0 where there is none.
        splits: Shares after one share before bar t, 1 where there is no split.
        adjusted: Whether prices already contain dividends and splits.
        features: What is known about each asset at the close of t, (T, A, K), finite.
        feature_names: Names of the K features.
        feature_from: First bar at which a feature of an asset is defined, (A, K) int64, T where it never is. Before it
            stands the feature's neutral value.
        market_features: What is known about the market at the close of t, (T, M), finite.
        market_feature_names: Names of the M market features.
        market_feature_from: First bar at which each is defined, (M,) int64.
        training_only_features: Names of features made with hindsight, such as an oracle's.
        periods_per_year: Bars in a year, for annualising.
        bar_seconds: Usual length of a bar.
        stamp: Whether a timestamp labels the `open` or the `close` of its bar.
        warmup: Leading bars that may be looked at but not traded.
    """

    timestamps: Array
    assets: tuple[str, ...]
    close: Array
    open: Array | None = None
    high: Array | None = None
    low: Array | None = None
    volume: Array | None = None
    tradable: Array
    last_bar: Array
    dividends: Array | None = None
    splits: Array | None = None
    adjusted: bool = False
    features: Array
    feature_names: tuple[str, ...] = ()
    feature_from: Array
    market_features: Array
    market_feature_names: tuple[str, ...] = ()
    market_feature_from: Array
    training_only_features: frozenset[str] = field(default_factory=frozenset)
    periods_per_year: float
    bar_seconds: float
    stamp: Stamp = "open"
    warmup: int = 0

    def __post_init__(self) -> None:
        from alphaswarm_rl.market.panel_checks import check_structure

        check_structure(self)
        for name in (attribute.name for attribute in fields(self)):
            value = getattr(self, name)
            if isinstance(value, np.ndarray):
                frozen = value.view()
                frozen.flags.writeable = False
                object.__setattr__(self, name, frozen)

    def __repr__(self) -> str:
        dates = f"{shown(self.timestamps[0])} to {shown(self.timestamps[-1])}"
        return (
            f"MarketPanel({self.num_assets} assets, {self.num_bars} bars from {dates}, "
            f"{len(self.feature_names)} features, {len(self.market_feature_names)} market features)"
        )

    @property
    def num_bars(self) -> int:
        """T, the warm-up bars included."""
        return len(self.timestamps)

    @property
    def num_assets(self) -> int:
        """A."""
        return len(self.assets)

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Type of the features: float32 or float64."""
        return np.dtype(self.features.dtype)

    @cached_property
    def known_at(self) -> Array:
        """When all of each bar is known, (T,) datetime64[ns]: the bar's close."""
        return known_at(self.timestamps, self.bar_seconds, self.stamp)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over names, times and numbers, in hexadecimal."""
        arrays: dict[str, Array | None] = {name: getattr(self, name) for name in ARRAYS}
        facts = {
            "assets": list(self.assets),
            "feature_names": list(self.feature_names),
            "market_feature_names": list(self.market_feature_names),
            "training_only_features": sorted(self.training_only_features),
            "adjusted": self.adjusted,
            "periods_per_year": self.periods_per_year,
            "bar_seconds": self.bar_seconds,
            "stamp": self.stamp,
            "warmup": self.warmup,
            "arrays": {
                name: None if array is None else [array.dtype.newbyteorder("<").str, *array.shape]
                for name, array in arrays.items()
            },
        }
        digest = hashlib.sha256(_FINGERPRINT_HEADER)
        digest.update(json.dumps(facts, sort_keys=True, separators=(",", ":"), allow_nan=False).encode() + b"\n")
        for array in arrays.values():
            if array is not None:
                for start in range(0, len(array), _FINGERPRINT_ROWS):
                    digest.update(_canonical(array[start : start + _FINGERPRINT_ROWS]))
        return digest.hexdigest()

    def window(self, start: Moment | None = None, end: Moment | None = None, *, warmup_bars: int = 0) -> MarketPanel:
        """The bars with start <= timestamp < end, as views of these arrays.

        Args:
            start: First date that may be traded; None is the first bar after this panel's own warm-up. Bars of this
                panel's warm-up stay warm-up.
            end: First date after the window; None is open.
            warmup_bars: How many bars before `start` come along to be looked at; fewer where there are fewer.
        """
        first = self.warmup if start is None else max(self.warmup, self._index(start))
        stop = self.num_bars if end is None else self._index(end)
        if stop - first < FEWEST_BARS:
            raise DataError(
                f"the window {start if start is not None else '...'} to {end if end is not None else '...'}",
                f"it holds {max(stop - first, 0)} bars and {FEWEST_BARS} are needed",
                f"There are bars from {shown(self.timestamps[self.warmup])} to {shown(self.timestamps[-1])}.",
            )
        begin = max(0, first - warmup_bars)
        return self.cut(begin, stop, warmup=first - begin)

    def cut(self, begin: int, stop: int, *, warmup: int = 0) -> MarketPanel:
        """The bars from index `begin` up to, and without, `stop`, as views of these arrays.

        Args:
            begin: The first bar.
            stop: The bar after the last.
            warmup: How many of them may be looked at but not traded.
        """
        length = stop - begin
        return replace(
            self,
            **{name: getattr(self, name)[begin:stop] for name in _BY_TIME if getattr(self, name) is not None},
            last_bar=np.clip(self.last_bar - begin, -1, length - 1),
            feature_from=np.clip(self.feature_from - begin, 0, length),
            market_feature_from=np.clip(self.market_feature_from - begin, 0, length),
            warmup=warmup,
        )

    def traded_bars(self, first: int) -> MarketPanel:
        """The bars from one on, without anything that is only looked at: warm-up and features."""
        bars = self.window(self.timestamps[first])
        return replace(
            bars,
            features=np.zeros((bars.num_bars, bars.num_assets, 0), dtype=np.float32),
            feature_names=(),
            feature_from=np.zeros((bars.num_assets, 0), dtype=np.int64),
            market_features=np.zeros((bars.num_bars, 0), dtype=np.float32),
            market_feature_names=(),
            market_feature_from=np.zeros(0, dtype=np.int64),
            training_only_features=frozenset(),
            warmup=0,
        )

    def select(self, assets: Sequence[str]) -> MarketPanel:
        """The same bars of these assets, in this order."""
        places = {asset: index for index, asset in enumerate(self.assets)}
        for asset in assets:
            if asset not in places:
                raise DataError(f"symbol {asset!r}", "the panel has no such asset", nearest(asset, self.assets))
        index = [places[asset] for asset in assets]
        columns: dict[str, Any] = {
            name: np.ascontiguousarray(getattr(self, name)[:, index])
            for name in _BY_ASSET
            if getattr(self, name) is not None
        }
        return replace(
            self,
            **columns,
            assets=tuple(assets),
            last_bar=self.last_bar[index],
            feature_from=self.feature_from[index],
        )

    def with_features(
        self,
        features: Mapping[str, Array],
        *,
        neutral: Mapping[str, float | Array] | None = None,
        training_only: Iterable[str] = (),
    ) -> MarketPanel:
        """This panel with more features.

        Args:
            features: Arrays (T, A) by name, known at the close of t. A leading NaN is not defined yet and becomes the
                neutral value; a later one repeats the value before it.
            neutral: The value that stands for "not defined yet", (T, A) or a number; 0 where none is given.
            training_only: Which of them are made with hindsight.
        """
        from alphaswarm_rl.market.panel_build import add_features

        return add_features(self, features, neutral or {}, frozenset(training_only))

    def with_market_features(self, features: Mapping[str, Array]) -> MarketPanel:
        """This panel with more market features: arrays (T,) by name, NaN as for `with_features`, neutral value 0."""
        from alphaswarm_rl.market.panel_build import add_market_features

        return add_market_features(self, features)

    @classmethod
    def from_frame(cls, frame: pd.DataFrame, **options: Unpack[FrameOptions]) -> MarketPanel:
        """A panel from a pandas frame with one row per bar and asset; `market.panel_columns` names its columns."""
        from alphaswarm_rl.market.panel_frame import panel_from_frame

        return panel_from_frame(frame, **options)

    @classmethod
    def from_closes(cls, frame: pd.DataFrame, **options: Unpack[PanelOptions]) -> MarketPanel:
        """A panel of closes alone, from a pandas frame with one row per moment and one column per asset."""
        from alphaswarm_rl.market.panel_frame import panel_from_closes

        return panel_from_closes(frame, **options)

    @classmethod
    def from_arrow(cls, table: pa.Table, **options: Unpack[FrameOptions]) -> MarketPanel:
        """A panel from an Arrow table with one row per bar and asset."""
        return cls.from_frame(table.to_pandas(date_as_object=False), **options)

    @classmethod
    def from_csv(cls, path: str | Path, **options: Unpack[FrameOptions]) -> MarketPanel:
        """A panel from a CSV file with one row per bar and asset."""
        from alphaswarm_rl.market.panel_columns import read_csv

        return cls.from_frame(read_csv(Path(path)), **options)

    @classmethod
    def from_parquet(cls, path: str | Path, **options: Unpack[FrameOptions]) -> MarketPanel:
        """A panel from a Parquet file with one row per bar and asset."""
        from alphaswarm_rl.market.panel_columns import read_parquet

        return cls.from_frame(read_parquet(Path(path)), **options)

    @classmethod
    def from_arrays(cls, arrays: PanelArrays, **options: Unpack[PanelOptions]) -> MarketPanel:
        """A panel from `timestamps` (T,), `assets` (A,), `close` (T, A) and any other column; NaN closes are gaps."""
        from alphaswarm_rl.market.panel_build import panel_from_arrays

        return panel_from_arrays(arrays, **options)

    def _index(self, when: Moment) -> int:
        return int(np.searchsorted(self.timestamps, moment(when)))


def _canonical(rows: Array) -> bytes:
    """An array's bytes: little-endian, every NaN in one form, no negative zero."""
    if rows.dtype.kind == "f":
        rows = np.where(np.isnan(rows), rows.dtype.type(np.nan), rows + rows.dtype.type(0))
    return np.ascontiguousarray(rows, dtype=rows.dtype.newbyteorder("<")).tobytes()

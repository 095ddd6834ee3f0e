"""FinRL's two classes over our own steps: `DataProcessor` fetches bars, `FeatureEngineer` adds columns to them.

Frames are FinRL's: one row per bar and asset, with the columns date, tic, close and, where they are known, open, high,
low and volume. Nothing is filled and no asset is dropped: a feature is NaN until it is defined.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from alphaswarm_rl.core.contracts import DataRequest
from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.core.refs import build_from_config
from alphaswarm_rl.core.types import Array
from alphaswarm_rl.core.window import Window
from alphaswarm_rl.data_pipelines.feature_names import TURBULENCE_WINDOW, check_features
from alphaswarm_rl.data_pipelines.features import indicator, turbulence, vix_join
from alphaswarm_rl.data_pipelines.remote import FINRL_SOURCES, interval_of
from alphaswarm_rl.data_pipelines.source import series_of_table
from alphaswarm_rl.data_pipelines.steps import TradingArrays, clean
from alphaswarm_rl.market.panel import MarketPanel

if TYPE_CHECKING:
    import pandas as pd

#: The indicators that FinRL computes where nobody names others.
INDICATORS = ("macd", "boll_ub", "boll_lb", "rsi_30", "cci_30", "dx_30", "close_30_sma", "close_60_sma")

_PRICES = ("open", "high", "low", "close", "volume")


class FeatureEngineer:
    """FinRL's FeatureEngineer: takes a frame of bars, gives it with one more column per feature.

    Args:
        use_technical_indicator: Whether indicators are added.
        tech_indicator_list: Which; see `rl components show data_pipeline frame` for the names.
        use_vix: Whether the column `vix` is added.
        use_turbulence: Whether the column `turbulence` is added, over the 252 bars before each.
    """

    def __init__(
        self,
        use_technical_indicator: bool = True,
        tech_indicator_list: Sequence[str] = INDICATORS,
        use_vix: bool = False,
        use_turbulence: bool = False,
    ) -> None:
        self.indicators = tuple(tech_indicator_list) if use_technical_indicator else ()
        check_features(self.indicators)
        self.use_vix = use_vix
        self.use_turbulence = use_turbulence

    def preprocess_data(self, df: pd.DataFrame, vix: pd.DataFrame | None = None) -> pd.DataFrame:
        """The bars by date and asset, with the features of each as they were known at its close.

        Args:
            df: The bars.
            vix: Columns date and close of the VIX, where its column is asked for: nothing is fetched here.
        """
        if self.use_vix and vix is None:
            raise DataError("the column 'vix'", "no series of the VIX was handed in", "Hand it in: vix=FRAME.")
        bars = clean(df)
        panel = MarketPanel.from_frame(bars)
        rows = np.searchsorted(panel.timestamps, bars["timestamp"].to_numpy().astype(panel.timestamps.dtype))
        numbers = {name.upper(): number for number, name in enumerate(panel.assets)}
        assets = np.array([numbers[str(name).upper()] for name in bars["asset"]])
        added: dict[str, Array] = {name: indicator(panel, name)[rows, assets] for name in self.indicators}
        if self.use_turbulence:
            added["turbulence"] = turbulence(panel, TURBULENCE_WINDOW)[rows]
        if vix is not None and self.use_vix:
            added["vix"] = vix_join(panel, *series_of_table(vix))[rows]
        return bars.rename(columns={"timestamp": "date", "asset": "tic"}).assign(**added)


class DataProcessor:
    """FinRL's DataProcessor: bars of a service, or of any data pipeline, as a frame; then FinRL's steps on it.

    Args:
        data_source: `yahoofinance`, `alpaca`, or the alias of a data pipeline.
        tech_indicator: Indicators that `add_technical_indicator` and `df_to_array` take where they are given none.
        kwargs: Parameters of the data pipeline.
    """

    def __init__(self, data_source: str, tech_indicator: Sequence[str] = INDICATORS, **kwargs: object) -> None:
        known = FINRL_SOURCES.get(data_source)
        self.alias = data_source if known is None else known[0]
        self._interval = None if known is None else known[1]
        self.indicators = tuple(tech_indicator)
        self._kwargs = kwargs

    def download_data(
        self, ticker_list: Sequence[str], start_date: str, end_date: str, time_interval: str | None = None
    ) -> pd.DataFrame:
        """The bars with start_date <= date < end_date.

        Args:
            ticker_list: The assets; empty takes all that the pipeline has.
            start_date: First date.
            end_date: First date after.
            time_interval: Length of a bar, such as 1D or 5Min, for services; None takes the pipeline's own.
        """
        kwargs = dict(self._kwargs)
        if time_interval is not None:
            kwargs[self._interval_parameter()] = interval_of(time_interval)
        pipeline = build_from_config({"class": self.alias, "kwargs": kwargs}, kind="data_pipeline")
        panel = pipeline.build(DataRequest(Window(start_date, end_date), symbols=tuple(ticker_list)))
        return _frame_of(panel)

    def clean_data(self, df: pd.DataFrame) -> pd.DataFrame:
        """The bars by date and asset; one that is there twice is an error."""
        return clean(df).rename(columns={"timestamp": "date", "asset": "tic"})

    def add_technical_indicator(
        self, df: pd.DataFrame, tech_indicator_list: Sequence[str] | None = None
    ) -> pd.DataFrame:
        """The bars with these indicators."""
        if tech_indicator_list is not None:
            self.indicators = tuple(tech_indicator_list)
        return FeatureEngineer(tech_indicator_list=self.indicators).preprocess_data(df)

    def add_turbulence(self, df: pd.DataFrame) -> pd.DataFrame:
        """The bars with the turbulence of the market."""
        return FeatureEngineer(False, use_turbulence=True).preprocess_data(df)

    def add_vix(self, df: pd.DataFrame, vix: pd.DataFrame) -> pd.DataFrame:
        """The bars with the VIX, of a frame with the columns date and close."""
        return FeatureEngineer(False, use_vix=True).preprocess_data(df, vix)

    def df_to_array(self, df: pd.DataFrame, if_vix: bool = False) -> TradingArrays:
        """The three arrays of FinRL's numpy environments, from a frame with the columns that the steps have added."""
        risk = "vix" if if_vix else "turbulence"
        for name in (*self.indicators, risk):
            if name not in df.columns:
                raise DataError(f"column {name!r}", "the frame has no such column", "Add it first.")
        wide = {name: df.pivot(index="date", columns="tic", values=name) for name in ("close", *self.indicators)}
        closes = wide["close"]
        tech = np.stack([wide[name].to_numpy(np.float64) for name in self.indicators], axis=-1)
        by_date = df.drop_duplicates("date").set_index("date")[risk]
        return TradingArrays(
            price=closes.to_numpy(np.float64),
            tech=tech.reshape(len(closes), -1),
            turbulence=by_date.loc[closes.index].to_numpy(np.float64),
        )

    def _interval_parameter(self) -> str:
        if self._interval is None:
            raise DataError(
                f"time_interval of the data pipeline {self.alias!r}",
                "its bars are as long as its data say",
                "Leave it out, or give the pipeline's own parameter to DataProcessor.",
            )
        return self._interval


def _frame_of(panel: MarketPanel) -> pd.DataFrame:
    """The bars of a panel, one row per bar at which an asset was traded."""
    import pandas as pd

    rows, assets = np.nonzero(panel.tradable)
    columns: dict[str, Any] = {"date": panel.timestamps[rows], "tic": np.array(panel.assets, dtype=object)[assets]}
    for name in _PRICES:
        values = getattr(panel, name)
        if values is not None:
            columns[name] = values[rows, assets]
    return pd.DataFrame(columns)

"""Bars from Alpaca."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from alphaswarm_rl.core.errors import DataError, require
from alphaswarm_rl.data_pipelines.pipeline import PanelPipeline
from alphaswarm_rl.data_pipelines.remote import RemoteConfig, closed_end, refuse_empty, symbols_to_fetch

if TYPE_CHECKING:
    import pandas as pd

    from alphaswarm_rl.core.contracts import DataRequest
    from alphaswarm_rl.market.panel import MarketPanel

_UNITS = {"m": "Min", "h": "Hour", "d": "Day"}


class AlpacaPipeline(PanelPipeline):
    """Bars of US stocks from Alpaca through alpaca-py; needs the extra `alpaca`, a network and two keys.

    Keys are read from the environment (`APCA_API_KEY_ID`, `APCA_API_SECRET_KEY`), never from a spec.
    """

    rl_alias = "alpaca"
    #: 2: short panels have the periods per year of the calendar.
    rl_version = 2
    rl_category = "services"
    rl_source = "alpaca-py"

    class Config(RemoteConfig):
        """Parameters of Alpaca."""

        bar: Literal["1m", "5m", "15m", "30m", "1h", "1d"] = Field("1d", description="Length of a bar.")
        feed: Literal["iex", "sip"] = Field("iex", description="iex: one exchange, free; sip: all exchanges.")
        adjustment: Literal["all", "split", "raw"] = Field(
            "all", description="What prices contain: dividends and splits, splits, or neither."
        )

    def load(self, request: DataRequest) -> MarketPanel:
        """All bars since `since`, up to the window's end."""
        from alphaswarm_rl.market.panel import MarketPanel

        symbols = symbols_to_fetch(self.config, request)
        frame = _fetch_frame(symbols, self.config, closed_end(request))
        return MarketPanel.from_frame(
            frame,
            assets=symbols,
            adjusted=self.config.adjustment == "all",
            periods_per_year=self.config.periods_per_year,
            feature_dtype=self.config.feature_dtype,
        )


def _fetch_frame(symbols: Sequence[str], config: AlpacaPipeline.Config, end: str) -> pd.DataFrame:
    """Bars with since <= moment < end, one row per bar and symbol, labelled by their start in UTC.

    The address can be changed by `APCA_API_DATA_URL`.
    """
    require("alpaca", extra="alpaca")
    from alpaca.common.exceptions import APIError
    from alpaca.data.historical import StockHistoricalDataClient
    from alpaca.data.requests import StockBarsRequest
    from alpaca.data.timeframe import TimeFrame, TimeFrameUnit

    from alphaswarm_rl.arrays.moments import moment

    key, secret = (_key(name) for name in ("APCA_API_KEY_ID", "APCA_API_SECRET_KEY"))
    client = StockHistoricalDataClient(key, secret, url_override=os.environ.get("APCA_API_DATA_URL"))
    request = StockBarsRequest(
        symbol_or_symbols=list(symbols),
        timeframe=TimeFrame(int(config.bar[:-1]), TimeFrameUnit(_UNITS[config.bar[-1]])),
        start=moment(config.since).astype("datetime64[us]").item(),
        end=moment(end).astype("datetime64[us]").item(),
        feed=config.feed,
        adjustment=config.adjustment,
    )
    try:
        answer = client.get_stock_bars(request)
    except APIError as error:
        raise DataError(
            f"symbols {', '.join(symbols)}", f"Alpaca refuses: {error}", "Check the keys, the feed and the dates."
        ) from error
    for symbol in symbols:
        refuse_empty("Alpaca", symbol, config.since, end, len(answer.data.get(symbol, ())))
    frame = answer.df.reset_index()
    # Alpaca's end is included, ours is not.
    return frame[frame["timestamp"].dt.tz_convert("UTC").dt.tz_localize(None).to_numpy() < moment(end)]


def _key(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise DataError(f"the variable {name}", "it is not set, and Alpaca asks for it", "Set it in the environment.")
    return value

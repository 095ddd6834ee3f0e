"""Bars from Yahoo Finance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from alphaswarm_rl.core.errors import DataError, require
from alphaswarm_rl.data_pipelines.pipeline import PanelPipeline
from alphaswarm_rl.data_pipelines.remote import (
    RemoteConfig,
    closed_end,
    finrl_pipeline,
    refuse_empty,
    symbols_to_fetch,
)

if TYPE_CHECKING:
    import pandas as pd

    from alphaswarm_rl.core.contracts import DataRequest
    from alphaswarm_rl.core.types import Array, JsonMapping
    from alphaswarm_rl.market.panel import MarketPanel

_COLUMNS = ["Open", "High", "Low", "Close", "Adj Close", "Volume", "Dividends"]
_WHOLE_DAYS = ("1d", "1wk", "1mo")


class YahooPipeline(PanelPipeline):
    """Bars from Yahoo Finance through yfinance; needs the extra `yahoo` and a network.

    Yahoo rewrites its past: a later dividend changes every adjusted price before it. The fingerprint of a run tells
    whether the data is still the same.
    """

    rl_alias = "yahoo"
    #: 2: short panels have the periods per year of the calendar.
    rl_version = 2
    rl_short_names = ("DataProcessor",)
    rl_category = "services"
    rl_source = "yfinance"

    class Config(RemoteConfig):
        """Parameters of Yahoo Finance."""

        interval: Literal["1d", "1wk", "1mo", "1h", "30m", "15m", "5m", "1m"] = Field(
            "1d", description="Length of a bar; Yahoo keeps those below a day for some weeks only."
        )
        adjust: bool = Field(
            True, description="Whether prices contain dividends; if not they are in the panel. Splits are in both."
        )

    @classmethod
    def rl_expand(cls, name: str, kwargs: JsonMapping) -> tuple[str, dict[str, Any]]:
        """FinRL's DataProcessor: bars of Yahoo Finance or Alpaca, as its `data_source` says."""
        return finrl_pipeline(kwargs)

    def load(self, request: DataRequest) -> MarketPanel:
        """All bars since `since`, up to the window's end."""
        from alphaswarm_rl.market.panel import MarketPanel

        symbols = symbols_to_fetch(self.config, request)
        frame = _fetch_frame(symbols, self.config.since, closed_end(request), self.config.interval)
        return MarketPanel.from_frame(
            frame,
            assets=symbols,
            adjust=self.config.adjust,
            periods_per_year=self.config.periods_per_year,
            feature_dtype=self.config.feature_dtype,
        )

    def load_vix(self, request: DataRequest) -> tuple[Array, Array]:
        """The daily close of the VIX."""
        from alphaswarm_rl.data_pipelines.source import series_of_table

        return series_of_table(_fetch_frame(["^VIX"], self.config.since, closed_end(request), "1d"))


def _fetch_frame(symbols: Sequence[str], start: str, end: str, interval: str) -> pd.DataFrame:
    """Bars with start <= moment < end, one row per bar and symbol.

    Prices contain splits already, so that Yahoo's column of splits is left out. Bars of a day or more are labelled by
    their date at the exchange, shorter ones by their start in UTC. Rows without a close are left out: they are gaps.
    """
    import pandas as pd

    frames = []
    for symbol in symbols:
        bars = _history(symbol, start, end, interval)
        refuse_empty("Yahoo Finance", symbol, start, end, len(bars))
        moments = bars.index.tz_localize(None) if interval in _WHOLE_DAYS else bars.index.tz_convert("UTC")
        bars = bars[_COLUMNS].set_axis(moments, axis=0).rename_axis("timestamp").dropna(subset=["Close"])
        frames.append(bars.reset_index().assign(symbol=symbol))
    return pd.concat(frames, ignore_index=True)


def _history(symbol: str, start: str, end: str, interval: str) -> pd.DataFrame:
    yfinance = require("yfinance", extra="yahoo")
    from yfinance.exceptions import YFException

    try:
        with _errors_shown():
            return yfinance.Ticker(symbol).history(
                start=start, end=end, interval=interval, auto_adjust=False, actions=True
            )
    except (YFException, OSError) as error:
        raise DataError(
            f"symbol {symbol!r}",
            f"Yahoo Finance gives no bars: {error}",
            "Check the symbol, the dates and the network.",
        ) from error


@contextmanager
def _errors_shown() -> Iterator[None]:
    """Yfinance logs most failures and hands out an empty frame; here they are raised."""
    from yfinance.config import YfConfig

    hidden = YfConfig.debug.hide_exceptions
    YfConfig.debug.hide_exceptions = False
    try:
        yield
    finally:
        YfConfig.debug.hide_exceptions = hidden

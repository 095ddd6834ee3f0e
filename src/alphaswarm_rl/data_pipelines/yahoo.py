"""Bars from Yahoo Finance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from alphaswarm_rl.data_pipelines.pipeline import PanelPipeline
from alphaswarm_rl.data_pipelines.remote import RemoteConfig, closed_end, wanted_symbols

if TYPE_CHECKING:
    import numpy as np

    from alphaswarm_rl.core.contracts import DataRequest
    from alphaswarm_rl.market.panel import MarketPanel


class YahooPipeline(PanelPipeline):
    """Bars from Yahoo Finance through yfinance; needs the extra `yahoo` and a network.

    Yahoo rewrites its past: a later dividend changes every adjusted price before it. The fingerprint of a run tells
    whether the data is still the same.
    """

    rl_alias = "yahoo"
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

    def load(self, request: DataRequest) -> MarketPanel:
        """All bars since `since`, up to the window's end."""
        from alphaswarm_rl.data_pipelines.yahoo_client import fetch_frame
        from alphaswarm_rl.market.panel import MarketPanel

        symbols = wanted_symbols(self.config, request)
        frame = fetch_frame(symbols, self.config.since, closed_end(request), self.config.interval)
        return MarketPanel.from_frame(
            frame,
            assets=symbols,
            adjust=self.config.adjust,
            periods_per_year=self.config.periods_per_year,
            feature_dtype=self.config.feature_dtype,
        )

    def load_vix(self, request: DataRequest) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """The daily close of the VIX."""
        from alphaswarm_rl.data_pipelines.source import series_of_table
        from alphaswarm_rl.data_pipelines.yahoo_client import fetch_frame

        return series_of_table(fetch_frame(["^VIX"], self.config.since, closed_end(request), "1d"))

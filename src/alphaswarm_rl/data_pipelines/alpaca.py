"""Bars from Alpaca."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from alphaswarm_rl.data_pipelines.pipeline import PanelPipeline
from alphaswarm_rl.data_pipelines.remote import RemoteConfig, closed_end, wanted_symbols

if TYPE_CHECKING:
    from alphaswarm_rl.core.contracts import DataRequest
    from alphaswarm_rl.market.panel import MarketPanel


class AlpacaPipeline(PanelPipeline):
    """Bars of US stocks from Alpaca through alpaca-py; needs the extra `alpaca`, a network and two keys.

    Keys are read from the environment (`APCA_API_KEY_ID`, `APCA_API_SECRET_KEY`), never from a spec.
    """

    rl_alias = "alpaca"
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
        from alphaswarm_rl.data_pipelines.alpaca_client import fetch_frame
        from alphaswarm_rl.market.panel import MarketPanel

        symbols = wanted_symbols(self.config, request)
        frame = fetch_frame(
            symbols,
            self.config.since,
            closed_end(request),
            bar=self.config.bar,
            feed=self.config.feed,
            adjustment=self.config.adjustment,
        )
        return MarketPanel.from_frame(
            frame,
            assets=symbols,
            adjusted=self.config.adjustment == "all",
            periods_per_year=self.config.periods_per_year,
            feature_dtype=self.config.feature_dtype,
        )

"""Real bars that come with installed libraries: no network, no files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Unpack

from pydantic import Field

from alphaswarm_rl.core.errors import require
from alphaswarm_rl.data_pipelines.pipeline import PanelPipeline, PipelineConfig

if TYPE_CHECKING:
    from alphaswarm_rl.core.contracts import DataRequest
    from alphaswarm_rl.market.panel import MarketPanel, PanelOptions


class BundledPipeline(PanelPipeline):
    """Real bars that come with skfolio and gym-anytrading: 20 US stocks, EURUSD by the hour, GOOGL by the day.

    `sp500_20` holds adjusted closes alone, 1990 to 2022, of 20 companies that were large at the end of that time. Those
    that failed on the way are not among them, so every strategy that holds stocks looks better here than it could have
    been: compare with equal weight on the same data, never with an index. `eurusd_1h` holds one year of ask prices,
    `googl_daily` the years 2009 to 2018 adjusted for splits.
    """

    rl_alias = "bundled"
    rl_category = "offline"

    class Config(PipelineConfig):
        """Parameters of bundled data."""

        dataset: Literal["sp500_20", "eurusd_1h", "googl_daily"] = Field("sp500_20", description="Which bars.")

    def load(self, request: DataRequest) -> MarketPanel:
        """All bars of the dataset."""
        config = self.config
        return _panel_of(config.dataset, periods_per_year=config.periods_per_year, feature_dtype=config.feature_dtype)


def _panel_of(dataset: str, **options: Unpack[PanelOptions]) -> MarketPanel:
    """The panel of a dataset, as the library that carries it hands it out."""
    from alphaswarm_rl.market.panel import MarketPanel

    adjusted: PanelOptions = {**options, "adjusted": True}
    if dataset == "sp500_20":
        from skfolio.datasets import load_sp500_dataset

        return MarketPanel.from_closes(load_sp500_dataset(), **adjusted)
    datasets = require("gym_anytrading.datasets", extra="anytrading")
    if dataset == "googl_daily":
        # Its close and its adjusted close are the same: splits are in both, and the company paid no dividend.
        return MarketPanel.from_frame(datasets.STOCKS_GOOGL, asset="GOOGL", **adjusted)
    import pandas as pd

    frame = datasets.FOREX_EURUSD_1H_ASK
    moments = pd.to_datetime(frame.index, format="%d.%m.%Y %H:%M:%S.%f")
    return MarketPanel.from_frame(frame.set_axis(moments, axis=0), asset="EURUSD", **options)

"""Real bars that come with installed libraries: no network, no files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from alphaswarm_rl.data_pipelines.pipeline import PanelPipeline, PipelineConfig

if TYPE_CHECKING:
    from alphaswarm_rl.core.contracts import DataRequest
    from alphaswarm_rl.market.panel import MarketPanel


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
        from alphaswarm_rl.data_pipelines.bundled_data import load_dataset

        return load_dataset(
            self.config.dataset,
            periods_per_year=self.config.periods_per_year,
            feature_dtype=self.config.feature_dtype,
        )

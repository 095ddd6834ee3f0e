"""Bars from a CSV file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from alphaswarm_rl.data_pipelines.file_config import FileConfig, existing_file
from alphaswarm_rl.data_pipelines.pipeline import PanelPipeline
from alphaswarm_rl.data_pipelines.source import panel_of_table, series_of_table

if TYPE_CHECKING:
    import numpy as np

    from alphaswarm_rl.core.contracts import DataRequest
    from alphaswarm_rl.market.panel import MarketPanel


class CsvPipeline(PanelPipeline):
    """Bars from a CSV file, one row per bar and asset, or closes with one column per asset."""

    rl_alias = "csv"
    rl_category = "files"

    class Config(FileConfig):
        """Parameters of a CSV file."""

    def load(self, request: DataRequest) -> MarketPanel:
        """All bars of the file."""
        from alphaswarm_rl.market.panel_columns import read_csv

        return panel_of_table(read_csv(existing_file(request.root, self.config.path)), self.config)

    def load_vix(self, request: DataRequest) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """The series of `vix_path`."""
        from alphaswarm_rl.market.panel_columns import read_csv

        return series_of_table(read_csv(existing_file(request.root, self.config.vix_path)))

    def load_fundamentals(self, request: DataRequest) -> Any:
        """The table of the file `fundamentals`."""
        from alphaswarm_rl.market.panel_columns import read_csv

        path = self.config.fundamentals
        return None if path is None else read_csv(existing_file(request.root, path))

"""The bundled datasets, as the libraries that carry them hand them out."""

from __future__ import annotations

from alphaswarm_rl.core.errors import require
from alphaswarm_rl.market.panel import FeatureType, MarketPanel


def load_dataset(
    dataset: str, feature_dtype: FeatureType = "float32", periods_per_year: float | None = None
) -> MarketPanel:
    """The panel of a dataset: `sp500_20`, `eurusd_1h` or `googl_daily`."""
    if dataset == "sp500_20":
        from skfolio.datasets import load_sp500_dataset

        return MarketPanel.from_closes(
            load_sp500_dataset(), adjusted=True, feature_dtype=feature_dtype, periods_per_year=periods_per_year
        )
    datasets = require("gym_anytrading.datasets", extra="anytrading")
    if dataset == "googl_daily":
        # Its close and its adjusted close are the same: splits are in both, and the company paid no dividend.
        return MarketPanel.from_frame(
            datasets.STOCKS_GOOGL,
            asset="GOOGL",
            adjusted=True,
            feature_dtype=feature_dtype,
            periods_per_year=periods_per_year,
        )
    import pandas as pd

    frame = datasets.FOREX_EURUSD_1H_ASK
    moments = pd.to_datetime(frame.index, format="%d.%m.%Y %H:%M:%S.%f")
    return MarketPanel.from_frame(
        frame.set_axis(moments, axis=0), asset="EURUSD", feature_dtype=feature_dtype, periods_per_year=periods_per_year
    )

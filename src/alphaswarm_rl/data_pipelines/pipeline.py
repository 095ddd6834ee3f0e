"""What all data pipelines share: parameters, and the way from loaded bars to a panel with features."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.errors import DataError, nearest
from alphaswarm_rl.core.kinds import DataPipeline
from alphaswarm_rl.data_pipelines.feature_names import check_features, check_market_features, turbulence_window

if TYPE_CHECKING:
    import pandas as pd

    from alphaswarm_rl.core.contracts import DataRequest, State
    from alphaswarm_rl.core.types import Array
    from alphaswarm_rl.market.panel import MarketPanel


def _is_a_date(value: str) -> str:
    from alphaswarm_rl.arrays.moments import moment

    try:
        moment(value)
    except DataError as error:
        raise ValueError(str(error)) from error
    return value


#: A date as text, kept as it was written.
DateText = Annotated[str, AfterValidator(_is_a_date)]


class PipelineConfig(ComponentConfig):
    """Parameters of every data pipeline."""

    features: list[str] = Field(
        default_factory=list, description="Indicators to compute for each asset, such as macd, rsi_30 or close_30_sma."
    )
    market_features: list[str] = Field(
        default_factory=list, description="Features of the whole market: turbulence, turbulence_N, vix."
    )
    scaler: Literal["none", "zscore", "minmax"] = Field(
        "none",
        description="How the assets' features are scaled, fitted on the training window; market features never are.",
    )
    feature_dtype: Literal["float32", "float64"] = Field("float32", description="Type of the features.")
    periods_per_year: float | None = Field(
        None, gt=0, description="Bars in a year; null: judged by their distance and the weekdays that trade."
    )

    @field_validator("features", "market_features")
    @classmethod
    def _known_features(cls, value: list[str], info: ValidationInfo) -> list[str]:
        check = check_features if info.field_name == "features" else check_market_features
        try:
            check(value)
        except DataError as error:
            raise PydanticCustomError("feature", "{text}", {"text": str(error).rstrip(".")}) from error
        return value


class PanelPipeline(DataPipeline):
    """A data pipeline that loads bars and lets the shared steps do the rest."""

    @abc.abstractmethod
    def load(self, request: DataRequest) -> MarketPanel:
        """All bars that the source has up to the window's end, without computed features."""

    def load_vix(self, request: DataRequest) -> tuple[Array, Array]:
        """Labels and values of the VIX; a source that has none refuses."""
        raise DataError(
            "market feature 'vix'",
            f"the data pipeline {self.rl_alias!r} has no such series",
            "Leave it out, or use a pipeline that takes one: csv, parquet, frame, yahoo.",
        )

    def load_fundamentals(self, request: DataRequest) -> pd.DataFrame | None:
        """The table of fundamentals whose `fundamental_fields` become features; None where there is none."""
        return None

    def build(self, request: DataRequest) -> MarketPanel:
        """The panel of the window with its warm-up bars and features, before scaling.

        Features are computed over all bars before the window is cut, so that they do not start anew with it.
        """
        panel = self.with_features(self.load(request), request)
        return panel.window(request.window.start, request.window.end, warmup_bars=request.warmup_bars)

    def with_features(self, panel: MarketPanel, request: DataRequest) -> MarketPanel:
        """Loaded bars of the assets that are wanted, with features, before scaling and before the window is cut."""
        from alphaswarm_rl.data_pipelines.features import add_indicators, turbulence, vix_join
        from alphaswarm_rl.data_pipelines.source import fundamentals_of_table

        config = self.config
        if request.symbols:
            panel = panel.select(assets_of(request.symbols, panel.assets))
        table = self.load_fundamentals(request)
        if table is not None:
            panel = panel.with_features(fundamentals_of_table(table, config.fundamental_fields, panel))
        if config.features:
            panel = add_indicators(panel, config.features)
        market: dict[str, Array] = {}
        for name in config.market_features:
            lookback = turbulence_window(name)
            market[name] = vix_join(panel, *self.load_vix(request)) if lookback is None else turbulence(panel, lookback)
        return panel.with_market_features(market) if market else panel

    def panel_of_rows(self, rows: pd.DataFrame) -> MarketPanel:
        """The panel of a table from elsewhere, without features: a row per bar and asset, columns by usual spellings.

        A pipeline over tables reads it as it reads its own.
        """
        from alphaswarm_rl.market.panel import MarketPanel

        config = self.config
        return MarketPanel.from_frame(
            rows, periods_per_year=config.periods_per_year, feature_dtype=config.feature_dtype
        )

    def fit(self, panel: MarketPanel) -> State:
        """What the scaler learns from the training window."""
        from alphaswarm_rl.data_pipelines.scaling import fit_scaler

        return fit_scaler(self.config.scaler, panel)

    def apply(self, panel: MarketPanel, state: State) -> MarketPanel:
        """The panel with features scaled by what was learnt in training."""
        from alphaswarm_rl.data_pipelines.scaling import apply_scaler

        return apply_scaler(panel, state)


def assets_of(symbols: Sequence[str], assets: Sequence[str]) -> list[str]:
    """The assets that symbols mean: the one of that very name, else the one named by the ticker before the venue.

    Symbols are in upper case, and names in files may be in any: one that differs in case alone is meant too.
    """
    known, folded = set(assets), dict[str, list[str]]()
    for asset in assets:
        folded.setdefault(asset.upper(), []).append(asset)
    found = []
    for symbol in symbols:
        ticker = symbol.rpartition(".")[0] or symbol
        names = [name for name in (symbol, ticker) if name in known]
        names += [same[0] for name in (symbol, ticker) if len(same := folded.get(name.upper(), [])) == 1]
        if not names:
            raise DataError(f"symbol {symbol!r}", "the data has no such asset", nearest(ticker, assets))
        found.append(names[0])
    return found

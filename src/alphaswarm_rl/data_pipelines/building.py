"""From loaded bars to the panel that was asked for."""

from __future__ import annotations

from collections.abc import Sequence

from alphaswarm_rl.core.contracts import DataRequest
from alphaswarm_rl.core.errors import DataError, nearest
from alphaswarm_rl.core.types import Array
from alphaswarm_rl.data_pipelines.feature_names import turbulence_window
from alphaswarm_rl.data_pipelines.features import add_indicators
from alphaswarm_rl.data_pipelines.pipeline import PanelPipeline
from alphaswarm_rl.data_pipelines.risk import turbulence, vix_join
from alphaswarm_rl.data_pipelines.source import fundamentals_of_table
from alphaswarm_rl.market.panel import MarketPanel


def build_panel(pipeline: PanelPipeline, request: DataRequest) -> MarketPanel:
    """Loads, chooses the symbols, adds features, cuts the window."""
    panel = pipeline.load(request)
    if request.symbols:
        panel = panel.select(matching(panel.assets, request.symbols))
    table = pipeline.load_fundamentals(request)
    if table is not None:
        panel = panel.with_features(fundamentals_of_table(table, pipeline.config.fundamental_fields, panel))
    if pipeline.config.features:
        panel = add_indicators(panel, pipeline.config.features)
    market: dict[str, Array] = {}
    for name in pipeline.config.market_features:
        lookback = turbulence_window(name)
        market[name] = vix_join(panel, *pipeline.load_vix(request)) if lookback is None else turbulence(panel, lookback)
    if market:
        panel = panel.with_market_features(market)
    return panel.window(request.window.start, request.window.end, warmup_bars=request.warmup_bars)


def matching(assets: Sequence[str], symbols: Sequence[str]) -> list[str]:
    """The assets that symbols mean: the one of that very name, else the one named by the ticker before the venue."""
    found = []
    for symbol in symbols:
        ticker = symbol.rpartition(".")[0] or symbol
        name = next((name for name in (symbol, ticker) if name in assets), None)
        if name is None:
            raise DataError(f"symbol {symbol!r}", "the data has no such asset", nearest(ticker, assets))
        found.append(name)
    return found

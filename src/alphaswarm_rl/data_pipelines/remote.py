"""What pipelines over a data service share: the symbols, the first date, and a window that has an end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field

from alphaswarm_rl.core.errors import DataError, nearest
from alphaswarm_rl.data_pipelines.pipeline import DateText, PipelineConfig

if TYPE_CHECKING:
    from alphaswarm_rl.core.contracts import DataRequest
    from alphaswarm_rl.core.types import JsonMapping

#: Venues whose symbols US services know by the ticker alone.
_US_VENUES = frozenset({"NASDAQ", "NYSE", "ARCA", "AMEX", "BATS"})


#: FinRL's names of sources, and how each calls the length of a bar.
FINRL_SOURCES = {"yahoofinance": ("yahoo", "interval"), "yahoo": ("yahoo", "interval"), "alpaca": ("alpaca", "bar")}
_INTERVALS = {"min": "m", "hour": "h", "day": "d", "d": "d", "h": "h", "m": "m"}


class RemoteConfig(PipelineConfig):
    """Parameters of a pipeline over a data service."""

    symbols: list[str] = Field(
        default_factory=list, description="Symbols to fetch where the universe of the spec names none."
    )
    since: DateText = Field(
        "2000-01-01", description="First date to fetch, ISO; fixed, so that features do not depend on the window."
    )


def symbols_to_fetch(config: RemoteConfig, request: DataRequest) -> list[str]:
    """The tickers to fetch, as the service knows them."""
    symbols: Sequence[str] = request.symbols or config.symbols
    if not symbols:
        raise DataError("symbols", "none is named", "Name them in universe.symbols or in the data pipeline.")
    return [ticker_of(symbol) for symbol in symbols]


def ticker_of(symbol: str) -> str:
    """The symbol without a US venue; another suffix is part of the name."""
    ticker, _, venue = symbol.rpartition(".")
    return ticker if ticker and venue.upper() in _US_VENUES else symbol


def closed_end(request: DataRequest) -> str:
    """The window's end; an open one would mean today, and other data tomorrow."""
    if request.window.end is None:
        raise DataError("the window", "it has no end, and a data service has new bars every day", "Give it an end.")
    return request.window.end


def refuse_empty(service: str, symbol: str, start: str, end: str, count: int) -> None:
    """Refuses an answer without bars; no other source is asked instead."""
    if not count:
        raise DataError(
            f"symbol {symbol!r}",
            f"{service} has no bars of it from {start} to {end}",
            "Check the symbol and the dates.",
        )


def interval_of(text: str) -> str:
    """A length of bars in our words: 1D is 1d, 5Min is 5m."""
    number = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    unit = _INTERVALS.get(text[len(number) :].lower())
    return text if unit is None or not number else f"{number}{unit}"


def finrl_pipeline(kwargs: JsonMapping) -> tuple[str, dict[str, Any]]:
    """The data pipeline that `{class: DataProcessor}` means in a spec: its alias and its parameters.

    `data_source` and `time_interval` are FinRL's; `tech_indicator_list`, `use_turbulence` and `use_vix` are those of
    its FeatureEngineer. Everything else is a parameter of the pipeline itself.
    """
    rest = dict(kwargs)
    source = str(rest.pop("data_source", "yahoofinance"))
    if source not in FINRL_SOURCES:
        raise DataError(
            f"data_source {source!r}", "DataProcessor knows no such service", nearest(source, FINRL_SOURCES)
        )
    alias, interval = FINRL_SOURCES[source]
    if "time_interval" in rest:
        rest[interval] = interval_of(str(rest.pop("time_interval")))
    if "tech_indicator_list" in rest:
        rest["features"] = rest.pop("tech_indicator_list")
    market = [name for name in ("turbulence", "vix") if rest.pop(f"use_{name}", False)]
    if market:
        rest["market_features"] = market
    return alias, rest

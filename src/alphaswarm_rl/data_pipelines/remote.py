"""What pipelines over a data service share: the symbols, the first date, and a window that has an end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.data_pipelines.pipeline import DateText, PipelineConfig

if TYPE_CHECKING:
    from alphaswarm_rl.core.contracts import DataRequest

#: Venues whose symbols US services know by the ticker alone.
_US_VENUES = frozenset({"NASDAQ", "NYSE", "ARCA", "AMEX", "BATS"})


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

"""Asking Yahoo Finance for bars."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from alphaswarm_rl.core.errors import DataError, require
from alphaswarm_rl.data_pipelines.remote import refuse_empty

_COLUMNS = ["Open", "High", "Low", "Close", "Adj Close", "Volume", "Dividends"]
_WHOLE_DAYS = ("1d", "1wk", "1mo")


def fetch_frame(symbols: Sequence[str], start: str, end: str, interval: str) -> Any:
    """Bars with start <= moment < end, one row per bar and symbol.

    Prices contain splits already, so that Yahoo's column of splits is left out. Bars of a day or more are labelled by
    their date at the exchange, shorter ones by their start in UTC. Rows without a close are left out: they are gaps.
    """
    import pandas as pd

    frames = []
    for symbol in symbols:
        bars = _history(symbol, start, end, interval)
        refuse_empty("Yahoo Finance", symbol, start, end, len(bars))
        moments = bars.index.tz_localize(None) if interval in _WHOLE_DAYS else bars.index.tz_convert("UTC")
        bars = bars[_COLUMNS].set_axis(moments, axis=0).rename_axis("timestamp").dropna(subset=["Close"])
        frames.append(bars.reset_index().assign(symbol=symbol))
    return pd.concat(frames, ignore_index=True)


def _history(symbol: str, start: str, end: str, interval: str) -> Any:
    yfinance = require("yfinance", extra="yahoo")
    from yfinance.exceptions import YFException

    try:
        with _errors_shown():
            return yfinance.Ticker(symbol).history(
                start=start, end=end, interval=interval, auto_adjust=False, actions=True
            )
    except (YFException, OSError) as error:
        raise DataError(
            f"symbol {symbol!r}",
            f"Yahoo Finance gives no bars: {error}",
            "Check the symbol, the dates and the network.",
        ) from error


@contextmanager
def _errors_shown() -> Iterator[None]:
    """Yfinance logs most failures and hands out an empty frame; here they are raised."""
    from yfinance.config import YfConfig

    hidden = YfConfig.debug.hide_exceptions
    YfConfig.debug.hide_exceptions = False
    try:
        yield
    finally:
        YfConfig.debug.hide_exceptions = hidden

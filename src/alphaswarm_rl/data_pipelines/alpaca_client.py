"""Asking Alpaca for bars."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from alphaswarm_rl.arrays.moments import moment
from alphaswarm_rl.core.errors import DataError, require
from alphaswarm_rl.data_pipelines.remote import refuse_empty

_BARS = {
    "1m": (1, "Min"),
    "5m": (5, "Min"),
    "15m": (15, "Min"),
    "30m": (30, "Min"),
    "1h": (1, "Hour"),
    "1d": (1, "Day"),
}


def fetch_frame(symbols: Sequence[str], start: str, end: str, *, bar: str, feed: str, adjustment: str) -> Any:
    """Bars with start <= moment < end, one row per bar and symbol, labelled by their start in UTC.

    The address can be changed by `APCA_API_DATA_URL`.
    """
    require("alpaca", extra="alpaca")
    from alpaca.common.exceptions import APIError
    from alpaca.data.historical import StockHistoricalDataClient
    from alpaca.data.requests import StockBarsRequest
    from alpaca.data.timeframe import TimeFrame, TimeFrameUnit

    key, secret = (_key(name) for name in ("APCA_API_KEY_ID", "APCA_API_SECRET_KEY"))
    client = StockHistoricalDataClient(key, secret, url_override=os.environ.get("APCA_API_DATA_URL"))
    amount, unit = _BARS[bar]
    request = StockBarsRequest(
        symbol_or_symbols=list(symbols),
        timeframe=TimeFrame(amount, TimeFrameUnit(unit)),
        start=moment(start).astype("datetime64[us]").item(),
        end=moment(end).astype("datetime64[us]").item(),
        feed=feed,
        adjustment=adjustment,
    )
    try:
        answer = client.get_stock_bars(request)
    except APIError as error:
        raise DataError(
            f"symbols {', '.join(symbols)}", f"Alpaca refuses: {error}", "Check the keys, the feed and the dates."
        ) from error
    for symbol in symbols:
        refuse_empty("Alpaca", symbol, start, end, len(answer.data.get(symbol, ())))
    frame = answer.df.reset_index()
    # Alpaca's end is included, ours is not.
    return frame[frame["timestamp"].dt.tz_convert("UTC").dt.tz_localize(None).to_numpy() < moment(end)]


def _key(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise DataError(f"the variable {name}", "it is not set, and Alpaca asks for it", "Set it in the environment.")
    return value

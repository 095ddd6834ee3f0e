"""Yahoo Finance: the real client, with recorded answers instead of a network."""

import json
from datetime import UTC, datetime

import numpy as np
import pytest
from yfinance.data import YfData

from alphaswarm_rl.core.contracts import DataRequest
from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.core.refs import build_from_config
from alphaswarm_rl.core.window import Window
from alphaswarm_rl.data_pipelines import yahoo  # noqa: F401  (registers)

DAYS = [2, 3, 6, 7, 8]


def chart(symbol, closes, *, adjusted=None, dividends=None):
    """Yahoo's answer for daily bars of January 2020: stamped at the opening in New York."""
    stamps = [int(datetime(2020, 1, day, 14, 30, tzinfo=UTC).timestamp()) for day in DAYS]
    meta = {
        "currency": "USD",
        "symbol": symbol,
        "exchangeName": "NMS",
        "instrumentType": "EQUITY",
        "firstTradeDate": 345479400,
        "regularMarketTime": stamps[-1],
        "gmtoffset": -18000,
        "timezone": "EST",
        "exchangeTimezoneName": "America/New_York",
        "priceHint": 2,
        "dataGranularity": "1d",
        "range": "",
        "validRanges": ["1d", "5d", "1mo", "max"],
        "currentTradingPeriod": {
            name: {"timezone": "EST", "start": 0, "end": 1, "gmtoffset": -18000} for name in ("pre", "regular", "post")
        },
    }
    quote = {
        "open": [None if close is None else close - 0.5 for close in closes],
        "high": [None if close is None else close + 1.0 for close in closes],
        "low": [None if close is None else close - 1.0 for close in closes],
        "close": closes,
        "volume": [None if close is None else 1000 for close in closes],
    }
    result = {
        "meta": meta,
        "timestamp": stamps,
        "indicators": {"quote": [quote], "adjclose": [{"adjclose": adjusted or closes}]},
    }
    if dividends:
        paid = {str(stamps[row]): {"amount": amount, "date": stamps[row]} for row, amount in dividends.items()}
        result["events"] = {"dividends": paid}
    return {"chart": {"result": [result], "error": None}}


MISSING = {
    "chart": {"result": None, "error": {"code": "Not Found", "description": "No data found, symbol may be gone"}}
}
ANSWERS = {
    "AAPL": chart("AAPL", [100.0, 102.0, 101.0, 104.0, 105.0], adjusted=[99.0, 100.98, 101.0, 104.0, 105.0],
                  dividends={2: 1.0}),
    "VOD.L": chart("VOD.L", [50.0, None, 52.0, 53.0, 54.0]),
    "^VIX": chart("^VIX", [12.0, 13.0, 14.0, 15.0, 16.0]),
}  # fmt: skip


class Answer:
    def __init__(self, content):
        self.text = json.dumps(content)
        self.status_code = 200

    def json(self):
        return json.loads(self.text)


@pytest.fixture(autouse=True)
def recorded(monkeypatch, tmp_path):
    """Every request is answered from `ANSWERS`; the list holds what was asked for."""
    asked = []

    def get(self, url, params=None, timeout=30):
        symbol = url.rpartition("/")[2]
        asked.append((symbol, dict(params or {})))
        return Answer(ANSWERS.get(symbol, MISSING))

    monkeypatch.setattr(YfData, "get", get)
    monkeypatch.setattr(YfData, "cache_get", get)
    monkeypatch.setattr("yfinance.base.TickerBase._get_ticker_tz", lambda self, timeout: "America/New_York")
    return asked


def build(tickers, window=("2020-01-01", "2020-01-09"), **kwargs):
    pipeline = build_from_config({"class": "yahoo", "kwargs": {"since": "2020-01-01", **kwargs}}, kind="data_pipeline")
    return pipeline.build(DataRequest(window=Window(*window), symbols=tickers))


def test_bars_are_labelled_by_their_date_and_a_missing_one_is_a_gap(recorded):
    panel = build(("AAPL.NASDAQ", "VOD.L"), adjust=False)
    assert panel.assets == ("AAPL", "VOD.L")
    assert panel.timestamps.astype("datetime64[D]").astype(str).tolist() == [f"2020-01-0{day}" for day in DAYS]
    assert panel.close[:, 0].tolist() == [100, 102, 101, 104, 105]
    assert panel.dividends[:, 0].tolist() == [0, 0, 1, 0, 0]
    assert panel.tradable[:, 1].tolist() == [True, False, True, True, True]
    assert not panel.adjusted
    asked = [params for symbol, params in recorded if symbol == "AAPL"][-1]
    assert asked["interval"] == "1d"
    # Midnight in New York.
    assert asked["period1"] == datetime(2020, 1, 1, 5, tzinfo=UTC).timestamp()
    assert asked["period2"] == datetime(2020, 1, 9, 5, tzinfo=UTC).timestamp()


def test_adjusted_prices_contain_the_dividend():
    panel = build(("AAPL",))
    assert panel.adjusted
    assert panel.dividends is None
    np.testing.assert_allclose(panel.close[:, 0], [99, 100.98, 101, 104, 105])
    np.testing.assert_allclose(panel.high[0, 0], 101 * 0.99)


def test_the_vix_joins_by_day():
    panel = build((), symbols=["AAPL"], market_features=["vix"], window=("2020-01-03", "2020-01-08"))
    assert panel.market_features[:, 0].tolist() == [13, 14, 15]


def test_a_symbol_without_bars_is_an_error_and_no_other_source_is_asked():
    with pytest.raises(DataError, match=r"symbol 'GONE': Yahoo Finance gives no bars: .*symbol may be gone"):
        build(("AAPL", "GONE"))


def test_a_broken_network_is_said(monkeypatch):
    def fail(self, url, params=None, timeout=30):
        raise ConnectionError("no route")

    monkeypatch.setattr(YfData, "get", fail)
    monkeypatch.setattr(YfData, "cache_get", fail)
    with pytest.raises(DataError, match="no route"):
        build(("AAPL",))


def test_an_open_end_and_no_symbols_are_refused():
    with pytest.raises(DataError, match="no end"):
        build(("AAPL",), window=("2020-01-01", None))
    with pytest.raises(DataError, match="symbols: none is named"):
        build(())

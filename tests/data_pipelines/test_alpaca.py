"""Alpaca: the real client against a server on this machine that gives recorded answers."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from alphaswarm_rl.core.contracts import DataRequest
from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.core.refs import build_from_config
from alphaswarm_rl.core.window import Window
from alphaswarm_rl.data_pipelines import alpaca  # noqa: F401  (registers)


def bar(day, close):
    """One daily bar as Alpaca writes it, stamped at midnight in New York."""
    return {
        "t": f"2020-01-{day:02d}T05:00:00Z",
        "o": close - 0.5,
        "h": close + 1.0,
        "l": close - 1.0,
        "c": close,
        "v": 1000,
        "n": 10,
        "vw": close,
    }


#: Two pages: the second is asked for with the token of the first.
PAGES = {
    None: {"bars": {"AAPL": [bar(2, 100.0), bar(3, 101.0)]}, "next_page_token": "more"},
    "more": {"bars": {"AAPL": [bar(6, 102.0)], "MSFT": [bar(3, 50.0), bar(6, 51.0)]}, "next_page_token": None},
}


@pytest.fixture
def server(monkeypatch):
    """The recorded server; the list holds (path, query, headers) of what was asked for."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            parts = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            asked.append((parts.path, query, dict(self.headers)))
            denied = self.headers["APCA-API-KEY-ID"] != "key"
            content = {"message": "forbidden."} if denied else PAGES[query.get("page_token")]
            self.send_response(403 if denied else 200)
            self.end_headers()
            self.wfile.write(json.dumps(content).encode())

        def log_message(self, *args):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        monkeypatch.setenv("APCA_API_KEY_ID", "key")
        monkeypatch.setenv("APCA_API_SECRET_KEY", "secret")
        monkeypatch.setenv("APCA_API_DATA_URL", f"http://127.0.0.1:{listening.server_port}")
        yield asked
        listening.shutdown()
        thread.join()


def build(symbols, window=("2020-01-01", "2020-01-07"), **kwargs):
    pipeline = build_from_config({"class": "alpaca", "kwargs": {"since": "2020-01-01", **kwargs}}, kind="data_pipeline")
    return pipeline.build(DataRequest(window=Window(*window), symbols=symbols))


def test_bars_of_all_pages_become_a_panel(server):
    panel = build(("MSFT.NASDAQ", "AAPL.NASDAQ"), features=["returns"])
    assert panel.assets == ("MSFT", "AAPL")
    assert panel.close[:, 1].tolist() == [100, 101, 102]
    assert panel.tradable[:, 0].tolist() == [False, True, True]
    assert panel.adjusted
    assert panel.features[2, 1, 0] == pytest.approx(102 / 101 - 1)
    path, query, headers = server[0]
    assert path == "/v2/stocks/bars"
    assert query["symbols"] == "MSFT,AAPL"
    assert (query["timeframe"], query["feed"], query["adjustment"]) == ("1Day", "iex", "all")
    assert query["start"].startswith("2020-01-01T00:00:00")
    assert headers["APCA-API-SECRET-KEY"] == "secret"


def test_the_end_is_not_included(server):
    assert build(("AAPL",), window=("2020-01-01", "2020-01-06T05:00:00")).num_bars == 2


def test_a_symbol_without_bars_is_an_error(server):
    with pytest.raises(DataError, match=r"symbol 'GONE': Alpaca has no bars of it from 2020-01-01 to 2020-01-07"):
        build(("AAPL", "GONE"))


def test_a_refusal_is_said_and_no_other_source_is_asked(server, monkeypatch):
    monkeypatch.setenv("APCA_API_KEY_ID", "wrong")
    with pytest.raises(DataError, match=r"Alpaca refuses.*forbidden"):
        build(("AAPL",))


def test_keys_come_from_the_environment(server, monkeypatch):
    monkeypatch.delenv("APCA_API_SECRET_KEY")
    with pytest.raises(DataError, match="APCA_API_SECRET_KEY"):
        build(("AAPL",))


def test_it_has_no_vix(server):
    with pytest.raises(DataError, match=r"'vix'.*'alpaca' has no such series"):
        build(("AAPL",), market_features=["vix"])

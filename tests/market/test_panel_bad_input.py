"""Every kind of bad bars: an error that names row, asset and column."""

import numpy as np
import pandas as pd
import pytest

from alphaswarm_rl.core.errors import AlphaSwarmError, DataError
from alphaswarm_rl.market.panel import MarketPanel
from tests.market.panels import bars


def changed(row, column, value):
    frame = bars()
    if isinstance(value, str) or value is None:
        frame[column] = frame[column].astype(object)
    frame.loc[row, column] = value
    return frame


def swapped():
    frame = bars()
    order = [0, 1, 2, 6, 4, 5, 3, *range(7, len(frame))]
    return frame.iloc[order].reset_index(drop=True)


def mixed_zones():
    frame = bars()
    frame["timestamp"] = frame["timestamp"].dt.tz_localize("UTC").astype(object)
    frame.loc[8, "timestamp"] = frame["timestamp"][8].tz_convert("Asia/Tokyo")
    return frame


def mixed_awareness():
    frame = bars()
    frame["timestamp"] = frame["timestamp"].dt.strftime("%Y-%m-%dT%H:%M:%S").astype(object)
    frame.loc[8, "timestamp"] += "+09:00"
    return frame


BAD = {
    "unsorted": (swapped, r"row 6 \(from 0; asset 'AAA', 2020-01-02\), column 'timestamp': it is earlier"),
    "duplicate": (
        lambda: pd.concat([bars().iloc[:4], bars().iloc[3:]]),
        r"row 4 \(from 0; asset 'AAA', 2020-01-02\).*row 3 \(from 0\) is the same bar",
    ),
    "negative price": (
        lambda: changed(7, "close", -1.0),
        r"row 7 \(from 0; asset 'BBB', 2020-01-03\), column 'close': -1.*positive",
    ),
    "zero price": (lambda: changed(7, "open", 0.0), r"row 7 \(from 0; asset 'BBB', 2020-01-03\), column 'open': 0"),
    "infinite price": (lambda: changed(7, "high", np.inf), r"row 7 .*'BBB'.*column 'high': inf"),
    "half a bar": (lambda: changed(7, "low", np.nan), r"row 7 .*'BBB'.*column 'low'.*has a close but no value"),
    "high below low": (lambda: changed(7, "high", 1.0), r"row 7 .*'BBB'.*'high' and 'low'.*below the low"),
    "negative volume": (lambda: changed(7, "volume", -5.0), r"row 7 .*'BBB'.*column 'volume': -5.*not negative"),
    "text for a number": (
        lambda: changed(7, "close", "n/a"),
        r"row 7 \(from 0\), column 'close': 'n/a' is not a number",
    ),
    "missing column": (lambda: bars().drop(columns="close"), r"column 'close': the data has no such column"),
    "missing time": (lambda: bars().drop(columns="timestamp"), r"column 'timestamp'.*date, datetime, time, ts"),
    "missing names": (lambda: bars().drop(columns="asset"), r"column 'asset'.*tic, symbol, ticker.*asset="),
    "two columns of one meaning": (
        lambda: bars().assign(date=bars()["timestamp"]),
        r"columns 'timestamp' and 'date': both mean 'timestamp'",
    ),
    "all-gap asset": (
        lambda: bars().assign(close=lambda frame: frame["close"].where(frame["asset"] != "BBB")),
        r"asset 'BBB', column 'close': it has no bar at all",
    ),
    "mixed time zones": (mixed_zones, r"row 8 \(from 0\), column 'timestamp': mixed time zones.*Asia/Tokyo.*UTC"),
    "naive and aware": (mixed_awareness, r"row 8 \(from 0\), column 'timestamp': mixed time zones.*\+09:00.*none"),
    "one bar": (lambda: bars(1), r"the panel: it has 1 bar\(s\) and 2 are needed"),
    "no bar": (lambda: bars().iloc[:0], r"the panel: it has 0 bar"),
    "names of another type": (
        lambda: bars().assign(asset=600519),
        r"row 0 \(from 0\), column 'asset'.*600519 is int, not text",
    ),
    "a missing name": (lambda: changed(7, "asset", None), r"row 7 \(from 0\), column 'asset': the asset has no name"),
    "numbers as moments": (lambda: bars().assign(timestamp=20200101), r"column 'timestamp'.*int64.*not a moment"),
    "no date": (
        lambda: changed(7, "timestamp", "7 May"),
        r"row 7 \(from 0\), column 'timestamp': '7 May' is not a date",
    ),
    "a missing moment": (
        lambda: changed(7, "timestamp", pd.NaT),
        r"row 7 \(from 0\), column 'timestamp': the moment is missing",
    ),
    "a flag that is none": (
        lambda: bars().assign(tradable="perhaps"),
        r"row 0 \(from 0\), column 'tradable': 'perhaps' is neither true nor false",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_bars_are_refused_by_name(what):
    make, text = BAD[what]
    with pytest.raises(DataError, match=text) as caught:
        MarketPanel.from_frame(make())
    assert isinstance(caught.value, AlphaSwarmError)
    assert caught.value.remedy


def test_rows_keep_their_numbers_when_assets_are_chosen():
    with pytest.raises(DataError, match=r"row 7 \(from 0; asset 'BBB', 2020-01-03\), column 'close'"):
        MarketPanel.from_frame(changed(7, "close", -1.0), assets=["BBB", "CCC"])
    assert MarketPanel.from_frame(changed(7, "close", -1.0), assets=["AAA"]).num_assets == 1


def test_an_unknown_symbol():
    with pytest.raises(DataError, match=r"symbol 'AAB': the data has no such asset. Did you mean 'AAA'"):
        MarketPanel.from_frame(bars(), assets=["AAB"])


@pytest.mark.parametrize(
    ("start", "end"),
    [("2030-01-01", None), (None, "2000-01-01"), ("2020-01-03", "2020-01-03"), ("2020-01-03", "2020-01-06")],
)
def test_a_window_outside_the_data_or_too_short_names_the_dates(start, end):
    with pytest.raises(DataError, match=r"the window .* There are bars from 2020-01-01 to 2020-02-11"):
        MarketPanel.from_frame(bars()).window(start, end)


ARRAYS = {
    "timestamps": np.array(["2020-01-01", "2020-01-02", "2020-01-03"], "datetime64[D]"),
    "assets": ["A", "B"],
    "close": np.ones((3, 2)),
}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"close": np.ones((2, 2))}, r"array 'close': it is float64 \(2, 2\), not numbers \(3, 2\)"),
        ({"close": [["a", "b"]] * 3}, r"array 'close'"),
        ({"close": -np.ones((3, 2))}, r"row 0 \(asset 'A', 2020-01-01\), column 'close': -1"),
        ({"assets": [1, 2]}, r"asset 0: its name 1 is int"),
        ({"assets": ["A", "A"]}, r"asset 'A': the name is there twice"),
        ({"assets": ["A", "B\x1b[31m"]}, r"the name of asset 1: it contains the control character U\+001B"),
        (
            {"features": {"x\u202e": np.ones((3, 2))}},
            r"the name of feature 0: it contains the control character U\+202E",
        ),
        ({"assets": [], "close": np.ones((3, 0))}, r"no asset"),
        ({"timestamps": ARRAYS["timestamps"][[0, 2, 1]]}, r"row 2.*earlier"),
        ({"timestamps": ARRAYS["timestamps"][[0, 0, 1]]}, r"row 1.*came before"),
        ({"timestamps": np.array(["NaT", "2020-01-01", "2020-01-02"], "datetime64[D]")}, r"row 0.*missing"),
        ({"timestamps": [1, 2, 3]}, r"array 'timestamps': it is int64"),
        ({"tradable": np.ones((3, 2))}, r"array 'tradable': it is float64"),
        ({"closes": np.ones((3, 2))}, r"array 'closes'.*Did you mean 'close'"),
        ({"features": {"x": np.ones((3, 3))}}, r"feature 'x': its shape is \(3, 3\), not \(3, 2\)"),
    ],
)
def test_bad_arrays_are_refused_by_name(change, text):
    with pytest.raises(DataError, match=text):
        MarketPanel.from_arrays({**ARRAYS, **change})


def test_a_missing_array():
    with pytest.raises(DataError, match="array 'close': it is missing"):
        MarketPanel.from_arrays({name: ARRAYS[name] for name in ("timestamps", "assets")})


@pytest.mark.parametrize("read", [MarketPanel.from_csv, MarketPanel.from_parquet])
def test_a_file_that_is_not_there_or_is_something_else(read, tmp_path):
    with pytest.raises(DataError, match=r"none.csv'?: it is not there"):
        read(tmp_path / "none.csv")
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(DataError, match="it is not"):
        read(tmp_path / "empty")

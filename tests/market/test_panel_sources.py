"""One panel, whatever it is read from."""

import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.market.panel import MarketPanel
from tests.market.panels import bars, gappy


def arrays(frame):
    """The frame as dense arrays with NaN at gaps."""
    wide = frame.pivot(index="timestamp", columns="asset")
    columns = {name: wide[name].to_numpy() for name in ("open", "high", "low", "close", "volume")}
    return {"timestamps": wide.index.to_numpy(), "assets": list(wide["close"].columns), **columns}


def test_every_source_gives_the_same_fingerprint(tmp_path):
    frame = gappy()
    frame.to_csv(tmp_path / "bars.csv", index=False)
    frame.to_parquet(tmp_path / "bars.parquet")
    prints = {
        "frame": MarketPanel.from_frame(frame).fingerprint,
        "by asset": MarketPanel.from_frame(frame.sort_values(["asset", "timestamp"])).fingerprint,
        "csv": MarketPanel.from_csv(tmp_path / "bars.csv").fingerprint,
        "parquet": MarketPanel.from_parquet(tmp_path / "bars.parquet").fingerprint,
        "arrow": MarketPanel.from_arrow(pa.Table.from_pandas(frame)).fingerprint,
        "arrays": MarketPanel.from_arrays(arrays(frame)).fingerprint,
    }
    assert len(set(prints.values())) == 1, prints


def test_the_layout_in_memory_plays_no_part():
    given = arrays(bars())
    turned = {name: np.asfortranarray(value) for name, value in given.items() if name != "assets"}
    swapped = {"close": given["close"].astype(">f8")}
    whole = MarketPanel.from_arrays(given)
    assert MarketPanel.from_arrays({**given, **turned}).fingerprint == whole.fingerprint
    assert MarketPanel.from_arrays({**given, **swapped}).fingerprint == whole.fingerprint


def test_wide_closes():
    frame = gappy()
    wide = frame.pivot(index="timestamp", columns="asset", values="close")
    from_long = MarketPanel.from_frame(frame[["timestamp", "asset", "close"]])
    assert MarketPanel.from_closes(wide).fingerprint == from_long.fingerprint
    assert MarketPanel.from_closes(wide.rename_axis("Date").reset_index()).fingerprint == from_long.fingerprint


@pytest.mark.parametrize(
    "names",
    [
        {"timestamp": "date", "asset": "tic"},
        {"timestamp": "Datetime", "asset": "Symbol", "close": "Close", "open": "OPEN"},
        {"timestamp": "ts", "asset": "ticker"},
        {"timestamp": "TIME"},
    ],
)
def test_columns_are_known_by_many_names(names):
    assert (
        MarketPanel.from_frame(bars().rename(columns=names)).fingerprint == MarketPanel.from_frame(bars()).fingerprint
    )


def test_an_index_counts_as_columns():
    frame = bars()
    by_both = frame.rename(columns={"asset": "symbol"}).set_index(["symbol", "timestamp"])
    assert MarketPanel.from_frame(by_both).fingerprint == MarketPanel.from_frame(frame).fingerprint
    one = frame[frame["asset"] == "AAA"].drop(columns="asset").set_index("timestamp").rename_axis(None)
    named = MarketPanel.from_frame(one, asset="AAA")
    assert named.fingerprint == MarketPanel.from_frame(frame, assets=["AAA"]).fingerprint
    with pytest.raises(DataError, match="column 'asset' already"):
        MarketPanel.from_frame(frame, asset="AAA")


@pytest.mark.parametrize(
    "spell",
    [
        lambda times: times.dt.tz_localize("UTC"),
        lambda times: times.dt.tz_localize("UTC").dt.tz_convert("America/New_York"),
        lambda times: times.dt.strftime("%Y-%m-%d"),
        lambda times: times.dt.strftime("%Y-%m-%dT%H:%M:%SZ"),
        lambda times: times.astype("datetime64[s]"),
        lambda times: pd.Series([moment.date() for moment in times], dtype=object),
        lambda times: pd.Series([moment.to_pydatetime() for moment in times], dtype=object),
    ],
)
def test_moments_are_read_in_every_spelling_and_without_a_zone_as_utc(spell):
    frame = bars()
    frame["timestamp"] = spell(frame["timestamp"])
    assert MarketPanel.from_frame(frame).fingerprint == MarketPanel.from_frame(bars()).fingerprint


def test_symbols_that_look_like_something_else_stay_symbols(tmp_path):
    frame = bars(assets=("0700", "NA", "ON", "TRUE", "nan"))
    frame.to_csv(tmp_path / "odd.csv", index=False)
    assert MarketPanel.from_csv(tmp_path / "odd.csv").assets == ("0700", "NA", "ON", "TRUE", "nan")


def test_an_empty_close_is_a_gap(tmp_path):
    frame = bars()
    frame.loc[7, ["open", "high", "low", "close", "volume"]] = np.nan
    frame.to_csv(tmp_path / "gap.csv", index=False)
    market = MarketPanel.from_csv(tmp_path / "gap.csv")
    assert not market.tradable[2, 1]
    assert market.fingerprint == MarketPanel.from_frame(frame.drop(index=7)).fingerprint


def test_columns_become_features_when_they_are_named(tmp_path):
    frame = bars().assign(score=1.5, vix=lambda data: data.groupby("timestamp").ngroup().astype(float))
    market = MarketPanel.from_frame(frame, features=["score"], market_features=["vix"])
    assert market.feature_names == ("score",)
    assert (market.features == 1.5).all()
    assert market.market_features[:, 0].tolist() == list(range(30))
    assert MarketPanel.from_frame(frame).feature_names == ()
    frame["vix"] = range(len(frame))
    with pytest.raises(DataError, match=r"row 0 \(from 0; asset 'AAA'.*'vix'.*another"):
        MarketPanel.from_frame(frame, market_features=["vix"])
    with pytest.raises(DataError, match=r"'scroe'.*Did you mean 'score'"):
        MarketPanel.from_frame(frame, features=["scroe"])


@pytest.mark.parametrize("word", [True, 1, "true", "True", "1.0"])
def test_flags_are_read_in_every_spelling(word):
    frame = bars()
    frame["tradable"] = pd.Series([word] * len(frame), dtype=object)
    assert MarketPanel.from_frame(frame).tradable.all()


def test_dates_of_python_are_dates():
    times = np.array([datetime.date(2020, 1, day) for day in (1, 2)], "datetime64[D]")
    market = MarketPanel.from_arrays({"timestamps": times, "assets": ["A"], "close": np.ones((2, 1))})
    assert market.timestamps[0] == np.datetime64("2020-01-01")

"""The panel: what it holds, how gaps look, how it is cut."""

import numpy as np
import pandas as pd
import pytest

from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.market.panel import MarketPanel
from tests.market.panels import bars, gappy, panel


def test_gaps_stay_gaps_and_closes_are_carried_forward_only():
    frame = gappy()
    market = MarketPanel.from_frame(frame)
    first, second, third = range(3)
    assert market.assets == ("AAA", "BBB", "CCC")
    assert not market.tradable[10:13, first].any()
    assert (market.close[10:13, first] == market.close[9, first]).all()
    assert (market.open[10:13, first] == market.close[9, first]).all()
    assert (market.volume[10:13, first] == 0).all()
    assert np.isnan(market.close[:5, second]).all()
    assert not market.tradable[:5, second].any()
    assert market.tradable[5:, second].all()
    assert not market.tradable[21:, third].any()
    assert (market.close[21:, third] == market.close[20, third]).all()
    assert market.last_bar.tolist() == [29, 29, 20]


def test_a_flagged_bar_is_marked_but_not_traded():
    frame = bars().assign(tradable=True)
    frame.loc[4, "tradable"] = False
    market = MarketPanel.from_frame(frame)
    assert (~market.tradable).sum() == 1
    assert not market.tradable[1, 1]
    assert market.close[1, 1] == frame["close"][4]


def test_arrays_cannot_be_written_and_do_not_follow_the_callers():
    closes = np.arange(1.0, 7.0).reshape(3, 2)
    times = np.array(["2020-01-01", "2020-01-02", "2020-01-03"], "datetime64[D]")
    market = MarketPanel.from_arrays({"timestamps": times, "assets": ["A", "B"], "close": closes})
    closes[0, 0] = 99.0
    assert market.close[0, 0] == 1.0
    for array in (market.close, market.tradable, market.features, market.timestamps, market.window("2020-01-01").close):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = array
    with pytest.raises(AttributeError):
        market.close = closes


def test_a_window_is_half_open_and_copies_nothing():
    market = panel(30, features=["volume"])
    cut = market.window("2020-01-06", "2020-01-20", warmup_bars=2)
    assert cut.warmup == 2
    assert cut.timestamps[2] == np.datetime64("2020-01-06")
    assert cut.timestamps[-1] == np.datetime64("2020-01-17")
    for name in ("timestamps", "close", "open", "high", "low", "volume", "tradable", "features", "market_features"):
        ours, whole = getattr(cut, name), getattr(market, name)
        assert np.shares_memory(ours, whole) or ours.size == 0, name
    assert cut.periods_per_year == market.periods_per_year


def test_warm_up_is_what_there_is():
    cut = panel().window("2020-01-03", warmup_bars=50)
    assert cut.warmup == 2
    assert cut.num_bars == 30


def test_a_window_of_a_window_starts_where_trading_may():
    cut = panel().window("2020-01-10", warmup_bars=5)
    assert cut.window().fingerprint == panel().window("2020-01-10").fingerprint
    assert cut.window("2020-01-01").timestamps[0] == np.datetime64("2020-01-10")
    assert cut.window(warmup_bars=3).warmup == 3


def test_a_window_may_be_given_by_moments_of_any_zone():
    zoned = pd.Timestamp("2020-01-06 01:00", tz="Europe/Berlin").to_pydatetime()
    assert panel().window(zoned).fingerprint == panel().window("2020-01-06").fingerprint
    assert panel().window("2020-01-06T02:00:00+02:00").fingerprint == panel().window("2020-01-06").fingerprint
    assert panel().window("0001-01-01", "9999-12-31").fingerprint == panel().fingerprint


def test_an_asset_ends_in_a_window_only_if_it_ends_there():
    market = MarketPanel.from_frame(gappy())
    stamps = market.timestamps
    assert market.window(end=stamps[15]).last_bar.tolist() == [14, 14, 14]
    assert market.window(stamps[15]).last_bar.tolist() == [14, 14, 5]
    assert market.window(stamps[25]).last_bar.tolist() == [4, 4, -1]
    assert market.window(end=stamps[4]).tradable[:, 1].sum() == 0


def test_later_bars_do_not_change_the_fingerprint_of_a_window():
    whole, part = bars(40), bars(40)
    part = part[part["timestamp"] < "2020-01-20"]
    cut = MarketPanel.from_frame(whole, periods_per_year=252).window(end="2020-01-20")
    assert cut.fingerprint == MarketPanel.from_frame(part, periods_per_year=252).fingerprint


def test_select_takes_assets_in_the_given_order():
    market = MarketPanel.from_frame(gappy(), features=["volume"])
    chosen = market.select(["CCC", "AAA"])
    assert chosen.assets == ("CCC", "AAA")
    assert chosen.last_bar.tolist() == [20, 29]
    np.testing.assert_array_equal(chosen.close, market.close[:, [2, 0]])
    np.testing.assert_array_equal(chosen.features, market.features[:, [2, 0]])
    with pytest.raises(DataError, match=r"'CCD'.*Did you mean 'CCC'"):
        market.select(["CCD"])


def test_features_are_finite_and_say_where_they_begin():
    market = panel(6)
    values = np.full((6, 3), np.nan)
    values[2, 0], values[4, 0], values[0, 1] = 1.0, 2.0, 7.0
    more = market.with_features({"x": values}, neutral={"x": -1.0})
    assert more.features[:, 0, 0].tolist() == [-1, -1, 1, 1, 2, 2]
    assert more.features[:, 1, 0].tolist() == [7] * 6
    assert more.features[:, 2, 0].tolist() == [-1] * 6
    assert more.feature_from[:, 0].tolist() == [2, 0, 6]
    assert more.window(market.timestamps[1]).feature_from[:, 0].tolist() == [1, 0, 5]
    with pytest.raises(DataError, match=r"'x'.*twice"):
        more.with_features({"x": values})
    with pytest.raises(DataError, match=r"row 0 \(asset 'AAA', 2020-01-01\), feature 'y'.*infinite"):
        market.with_features({"y": np.full((6, 3), np.inf)})


def test_market_features_have_one_value_per_moment():
    market = panel(4).with_market_features({"vix": np.array([np.nan, 12.0, np.nan, 14.0])})
    assert market.market_features[:, 0].tolist() == [0, 12, 12, 14]
    assert market.market_feature_from.tolist() == [1]
    with pytest.raises(DataError, match="shape"):
        market.with_market_features({"y": np.zeros(3)})


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_features_have_the_type_that_was_asked_for(dtype):
    market = panel(features=["volume"], feature_dtype=dtype)
    assert market.dtype == np.dtype(dtype)
    assert market.market_features.dtype == np.dtype(dtype)


def test_hindsight_is_declared():
    assert panel(features=["volume"], training_only=["volume"]).training_only_features == {"volume"}
    with pytest.raises(DataError, match="'next'"):
        panel(features=["volume"], training_only=["next"])
    with pytest.raises(DataError, match="training_only"):
        panel(training_only=["volume"])


def test_adjusting_scales_all_prices_and_counts_nothing_twice():
    frame = bars().assign(dividends=0.0, splits=0.0)
    frame["adj_close"] = frame["close"] / 2
    market = MarketPanel.from_frame(frame, adjust=True)
    plain = MarketPanel.from_frame(frame)
    assert market.adjusted
    assert not plain.adjusted
    np.testing.assert_allclose(market.high, plain.high / 2)
    np.testing.assert_allclose(market.close, plain.close / 2)
    assert market.dividends is None
    assert (plain.splits == 1).all()
    with pytest.raises(DataError, match="count twice"):
        MarketPanel.from_frame(frame, adjusted=True)
    with pytest.raises(DataError, match="'adj_close'"):
        MarketPanel.from_frame(bars(), adjust=True)
    assert MarketPanel.from_frame(frame[["timestamp", "asset", "adj_close"]]).adjusted


def test_bars_are_known_at_their_close():
    market = panel(4)
    assert market.known_at[0] == np.datetime64("2020-01-02")
    # Friday's bar is over a day later, not when the next one starts.
    assert market.known_at[2] == np.datetime64("2020-01-04")
    closes = panel(4, stamp="close")
    np.testing.assert_array_equal(closes.known_at, closes.timestamps)

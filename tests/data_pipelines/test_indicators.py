"""Indicators: worked examples, agreement with stockstats, gaps, and nothing from the future."""

import numpy as np
import pandas as pd
import pytest
import stockstats

from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.data_pipelines import indicators
from alphaswarm_rl.data_pipelines.feature_names import check_market_features, parse_indicator
from alphaswarm_rl.data_pipelines.features import add_indicators, indicator
from alphaswarm_rl.market.panel import MarketPanel
from tests.market.panels import bars, gappy

EVERY = [
    "macd",
    "boll_ub",
    "boll_lb",
    "rsi",
    "rsi_30",
    "cci",
    "cci_30",
    "dx",
    "dx_30",
    "close_30_sma",
    "close_60_sma",
    "atr",
    "atr_5",
    "returns",
    "returns_5",
    "volatility",
    "volatility_10",
]
OF_STOCKSTATS = [name for name in EVERY if not name.startswith(("returns", "volatility"))]


def column(*values):
    return np.array(values, dtype=float)[:, None]


def test_worked_examples():
    close = column(1, 2, 3, 4, 5)
    np.testing.assert_allclose(indicators.sma(close, 3)[:, 0], [np.nan, np.nan, 2, 3, 4])
    np.testing.assert_allclose(indicators.rsi(close, 2)[2:, 0], 100)
    np.testing.assert_allclose(indicators.rsi(close[::-1], 2)[2:, 0], 0)
    np.testing.assert_allclose(indicators.rsi(np.ones((4, 1)), 2)[2:, 0], 50)
    np.testing.assert_allclose(indicators.returns(column(1, 2, 3), 2)[:, 0], [np.nan, np.nan, 2])
    # Returns of 100 % and 0 %: their sample deviation is the square root of a half.
    np.testing.assert_allclose(indicators.volatility(column(1, 2, 2), 2)[:, 0], [np.nan, np.nan, np.sqrt(0.5)])
    lower, upper = indicators.bollinger(column(1, 2, 3), 3, 2.0)
    assert (lower[2, 0], upper[2, 0]) == (0.0, 4.0)
    # Every day rises by one, with a range of two: one-sided, and a true range of two.
    steady = indicators.dx(close + 1, close - 1, 2), indicators.atr(close + 1, close - 1, close, 2)
    np.testing.assert_allclose(steady[0][2:, 0], 100)
    np.testing.assert_allclose(steady[1][1:, 0], 2)
    # Typical prices 1, 2, 3: the mean absolute deviation is 2/3, so (3 - 2) / (0.015 * 2/3) = 100.
    np.testing.assert_allclose(indicators.cci(column(1, 2, 3), column(1, 2, 3), column(1, 2, 3), 3)[2, 0], 100)


@pytest.mark.parametrize("name", OF_STOCKSTATS)
def test_they_agree_with_stockstats_once_the_window_is_full(name):
    frame = bars(400, seed=3)
    ours = indicator(MarketPanel.from_frame(frame), name)
    first = parse_indicator(name).first
    for position, asset in enumerate(("AAA", "BBB", "CCC")):
        own = frame[frame["asset"] == asset].drop(columns="asset").set_index("timestamp")
        theirs = stockstats.StockDataFrame.retype(own)[name].to_numpy()
        np.testing.assert_allclose(ours[first:, position], theirs[first:], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", EVERY)
def test_they_are_defined_from_the_bar_that_their_name_says(name):
    parsed = parse_indicator(name)
    values = indicator(MarketPanel.from_frame(bars(100)), name)
    assert np.isnan(values[: parsed.first]).all()
    assert np.isfinite(values[parsed.first :]).all()
    short = MarketPanel.from_frame(bars(3))
    assert np.isnan(indicator(short, name)).all() or parsed.first < 3


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("bar", [20, 45, 70])
def test_nothing_after_t_changes_anything_at_t(name, bar):
    frame = gappy(90)
    moment = np.sort(frame["timestamp"].unique())[bar]
    noisy = frame.copy()
    later = noisy["timestamp"] > moment
    noise = np.random.default_rng(1).uniform(0.3, 3.0, later.sum())
    for price in ("open", "high", "low", "close"):
        noisy.loc[later, price] *= noise
    before = add_indicators(MarketPanel.from_frame(frame), [name])
    after = add_indicators(MarketPanel.from_frame(noisy), [name])
    assert before.features[: bar + 1].tobytes() == after.features[: bar + 1].tobytes()
    assert before.features[bar + 1 :].tobytes() != after.features[bar + 1 :].tobytes()


@pytest.mark.parametrize("name", EVERY)
def test_a_gap_is_no_bar(name):
    """The asset's own bars count: as if the gap were cut out, with the last value repeated in it."""
    frame = gappy(90)
    panel = add_indicators(MarketPanel.from_frame(frame), [name])
    for position, asset in enumerate(panel.assets):
        own = frame[frame["asset"] == asset]
        alone = add_indicators(MarketPanel.from_frame(own), [name])
        rows = panel.tradable[:, position]
        np.testing.assert_array_equal(panel.features[rows, position], alone.features[:, 0])
    np.testing.assert_array_equal(panel.features[10:13, 0], panel.features[[9, 9, 9], 0])


def test_before_it_is_defined_stands_a_neutral_value_and_the_panel_says_so():
    panel = add_indicators(MarketPanel.from_frame(gappy(90)), ["rsi_5", "close_5_sma", "macd", "atr_5"])
    assert (panel.features[:5, 0, 0] == 50).all()
    np.testing.assert_array_equal(panel.features[:4, 0, 1], panel.close[:4, 0].astype(np.float32))
    assert (panel.features[:25, 0, 2] == 0).all()
    # BBB starts at bar 5, where it has no close to stand in either.
    assert (panel.features[:5, 1, 1] == 0).all()
    # AAA has a hole of three bars, CCC ends after 21: its MACD is never defined.
    assert panel.feature_from.tolist() == [[5, 4, 28, 4], [10, 9, 30, 9], [5, 4, 90, 4]]


def test_a_column_that_is_missing_is_named():
    closes = MarketPanel.from_frame(bars()[["timestamp", "asset", "close"]])
    with pytest.raises(DataError, match=r"feature 'cci_30': it needs the column 'high', which the panel lacks"):
        add_indicators(closes, ["cci_30"])


@pytest.mark.parametrize("name", ["rsi_0", "rsi30", "sma_30", "close_sma", "MACD", "", "volatility_1", "macd_12"])
def test_unknown_indicators_are_refused(name):
    with pytest.raises(DataError, match="feature"):
        parse_indicator(name)


def test_unknown_or_repeated_names_are_refused():
    with pytest.raises(DataError, match="twice"):
        add_indicators(MarketPanel.from_frame(bars()), ["rsi_5", "rsi_5"])
    for name in ("vixx", "turbulence_1"):
        with pytest.raises(DataError, match=name):
            check_market_features([name])
    check_market_features(["turbulence", "turbulence_60", "vix"])


def test_a_value_does_not_depend_on_where_the_panel_is_cut():
    frame = bars(200)
    whole = indicator(MarketPanel.from_frame(frame), "close_30_sma")
    part = indicator(MarketPanel.from_frame(frame.iloc[150:].reset_index(drop=True)), "close_30_sma")
    np.testing.assert_array_equal(whole[79:], part[29:])
    assert pd.notna(part[29]).all()


# -- splits ----------------------------------------------------------------------------------------------------------

SPLITS = {10: 2.0, 33: 3.0, 61: 0.1}
IN_PRICE = ("macd", "boll_ub", "boll_lb", "close_30_sma", "close_60_sma", "atr", "atr_5")


def in_new_units(frame, splits):
    """The same bars as they were quoted: prices after a split are those of the new units."""
    frame = frame.copy()
    place = frame["timestamp"].rank(method="dense").astype(int) - 1
    frame["splits"] = place.map(splits).fillna(0.0)
    units = np.ones(place.max() + 1)
    for bar, split in splits.items():
        units[bar:] *= split
    for price in ("open", "high", "low", "close"):
        frame[price] /= units[place]
    return frame, units


def test_a_share_that_becomes_two_is_no_fall():
    close = np.array([100.0, 101.0, 50.25, 51.0])
    frame = pd.DataFrame({"date": pd.bdate_range("2024-01-01", periods=4), "tic": "KO", "close": close})
    panel = MarketPanel.from_frame(frame.assign(splits=[0, 0, 2, 0]))
    np.testing.assert_allclose(indicator(panel, "returns_1")[2, 0], 50.25 / 50.5 - 1)
    np.testing.assert_allclose(indicator(panel, "returns_2")[3, 0], 51.0 / 50.5 - 1)
    # An average is in the units of its own bar, beside which the close stands.
    np.testing.assert_allclose(indicator(panel, "close_2_sma")[1:, 0], [100.5, (50.5 + 50.25) / 2, 50.625])
    # Without the split it is the fall that nobody suffered.
    np.testing.assert_allclose(indicator(MarketPanel.from_frame(frame), "returns_1")[2, 0], 50.25 / 101 - 1)


@pytest.mark.parametrize("name", EVERY)
def test_splits_change_the_units_of_an_indicator_and_nothing_else(name):
    plain = bars(100, assets=("AAA",))
    quoted, units = in_new_units(plain, SPLITS)
    expected = indicator(MarketPanel.from_frame(plain), name)[:, 0]
    found = indicator(MarketPanel.from_frame(quoted), name)[:, 0]
    np.testing.assert_allclose(found * (units if name in IN_PRICE else 1.0), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("bar", [9, 10, 32, 33, 60])
def test_a_split_that_comes_later_changes_nothing_before(name, bar):
    """Neither the later splits nor how large they are reach back, to the last bit."""
    frame, _ = in_new_units(gappy(90), SPLITS)
    moments = np.sort(frame["timestamp"].unique())
    later = frame["timestamp"] > moments[bar]
    others = frame.assign(splits=np.where(later, np.where(frame["splits"] > 0, 5.0, 1.5), frame["splits"]))
    before = add_indicators(MarketPanel.from_frame(frame), [name]).features[: bar + 1]
    assert before.tobytes() == add_indicators(MarketPanel.from_frame(others), [name]).features[: bar + 1].tobytes()
    known = frame.assign(splits=np.where(later, 0.0, frame["splits"]))
    assert before.tobytes() == add_indicators(MarketPanel.from_frame(known), [name]).features[: bar + 1].tobytes()


def test_over_a_gap_with_a_split_a_price_is_repeated_in_the_new_units():
    days = pd.bdate_range("2024-01-01", periods=5)
    close = [100.0, 102.0, np.nan, np.nan, 52.0]
    arrays = {
        "timestamps": days.to_numpy(),
        "assets": ["KO"],
        "close": np.array(close)[:, None],
        "splits": np.array([1.0, 1.0, 1.0, 2.0, 1.0])[:, None],
    }
    panel = add_indicators(MarketPanel.from_arrays(arrays), ["close_2_sma", "returns_1"])
    assert panel.close[:, 0].tolist() == [100, 102, 102, 51, 52]
    assert panel.features[:, 0, 0].tolist() == [100.0, 101.0, 101.0, 50.5, 51.5]
    np.testing.assert_allclose(panel.features[1:4, 0, 1], 0.02, rtol=1e-6)
    np.testing.assert_allclose(panel.features[4, 0, 1], 52 / 51 - 1, rtol=1e-6)
    assert panel.feature_from.tolist() == [[1, 1]]


@pytest.mark.parametrize("name", EVERY)
def test_without_a_split_a_column_of_splits_changes_no_bit(name):
    frame = gappy(90)
    plain = add_indicators(MarketPanel.from_frame(frame), [name])
    known = add_indicators(MarketPanel.from_frame(frame.assign(splits=0.0)), [name])
    assert plain.features.tobytes() == known.features.tobytes()


def test_prices_that_contain_their_splits_are_left_alone():
    frame = bars(60)
    plain = add_indicators(MarketPanel.from_frame(frame), ["close_30_sma"])
    adjusted = add_indicators(MarketPanel.from_frame(frame, adjusted=True), ["close_30_sma"])
    assert plain.features.tobytes() == adjusted.features.tobytes()

"""What is selected, by hand."""

from dataclasses import replace

import numpy as np
import pytest

from alphaswarm_rl.core.errors import ComponentError, DataError
from alphaswarm_rl.core.refs import reference
from alphaswarm_rl.envs.making import make_env
from alphaswarm_rl.market.covariance import bar_returns
from alphaswarm_rl.market.panel import MarketPanel
from alphaswarm_rl.portfolio.rebalance import first_bars
from alphaswarm_rl.portfolio.select import top_k
from tests.actions.views import ACCOUNT, panel_of
from tests.portfolio.stages import market_for, panel_for, parts_of, stage


def selected(panel, *stages):
    return parts_of(stages, market_for(panel), 1)[-1].selected.astype(int).tolist()


def test_a_static_universe_is_what_it_names():
    panel = panel_of(np.full((3, 3), 10.0))
    assert selected(panel, stage("static_universe", symbols=["A2", "A0"])) == [[1, 0, 1]] * 3


def test_an_unknown_symbol_is_an_error_that_names_it_and_the_nearest():
    with pytest.raises(DataError, match=r"'A22'.*no such asset.*'A2'"):
        selected(panel_of(np.full((3, 3), 10.0)), stage("static_universe", symbols=["A0", "A22"]))


@pytest.mark.parametrize("symbols", [[], ["A0", "A0"]])
def test_no_symbol_and_one_twice_are_refused(symbols):
    with pytest.raises(ComponentError, match=r"at least 1|twice"):
        reference({"class": "StaticUniverseSelector", "kwargs": {"symbols": symbols}}, "portfolio_stage")


def test_liquidity_is_money_traded_on_average_of_the_window():
    volume = np.array([[10.0, 0.0], [0.0, 40.0], [20.0, 0.0], [20.0, 10.0]])
    panel = panel_of(np.full((4, 2), 5.0), volume=volume)
    # Averages of two bars: 50 at first counted as 25, 25, 50, 100; and 0, 100, 100, 25.
    assert selected(panel, stage("liquidity", min_traded_value=50.0, lookback=2)) == [[0, 0], [0, 1], [1, 1], [1, 0]]


def test_liquidity_needs_volume_wherever_it_is_asked():
    panel = panel_of(np.full((4, 2), 5.0))
    with pytest.raises(DataError, match=r"'volume'.*'liquidity'"):
        selected(panel, stage("liquidity"))
    with pytest.raises(DataError, match=r"'volume'.*'liquidity'"):
        environment([{"class": "liquidity"}], panel)


def test_momentum_takes_the_highest_returns_and_of_equals_the_first():
    close = np.array([[10, 10, 10, 10], [10, 10, 10, 10], [11, 12, 11, 9], [9, 12, 12, 9]], float)
    found = selected(panel_of(close), stage("momentum", k=2, lookback=1))
    # At the first bar there is no return yet.
    assert found == [[0, 0, 0, 0], [1, 1, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0]]
    assert selected(panel_of(close), stage("momentum", k=1, lookback=1, skip=1))[3] == [0, 1, 0, 0]
    assert selected(panel_of(close), stage("momentum", k=9, lookback=2))[2] == [1, 1, 1, 1]


def test_momentum_counts_splits_and_dividends():
    close = np.array([[10, 10], [5, 10.5], [5, 9.0]])
    splits = np.array([[1, 1], [2.2, 1], [1, 1]])
    dividends = np.array([[0, 0], [0, 0], [0, 2.0]])
    panel = panel_of(close, splits=splits, dividends=dividends)
    assert selected(panel, stage("momentum", k=1, lookback=1)) == [[0, 0], [1, 0], [0, 1]]


def test_an_asset_without_a_price_or_a_bar_is_not_momentum():
    close = np.array([[10, np.nan], [11, 50], [11, 60], [np.nan, 70]])
    panel = panel_of(close)
    assert selected(panel, stage("momentum", k=2, lookback=2)) == [[0, 0], [0, 0], [1, 0], [0, 1]]


def test_top_k_is_stable():
    assert top_k(np.array([[1.0, 3.0, 3.0, 2.0]]), 2).tolist() == [[False, True, True, False]]
    assert top_k(np.array([[1.0, 1.0, 1.0]]), 2).tolist() == [[True, True, False]]


def test_several_selections_hold_together():
    panel = panel_of(np.full((3, 3), 10.0))
    stages = [stage("static_universe", symbols=["A0", "A1"]), stage("static_universe", symbols=["A1", "A2"])]
    assert selected(panel, *stages) == [[0, 1, 0]] * 3


def test_a_universe_that_is_empty_at_every_bar_is_an_error():
    panel = panel_of(np.full((3, 3), 10.0), volume=np.ones((3, 3)))
    with pytest.raises(DataError, match=r"'liquidity'.*the universe is empty: none of 3 assets"):
        selected(panel, stage("liquidity", min_traded_value=1e9, lookback=1))
    with pytest.raises(DataError, match=r"'static_universe'.*empty"):
        selected(panel, stage("static_universe", symbols=["A0"]), stage("static_universe", symbols=["A1"]))
    with pytest.raises(DataError, match="empty"):
        environment([{"class": "static_universe", "kwargs": {"symbols": [one]}} for one in ("A0", "A1")], panel)


def environment(portfolio, panel):
    action = {"class": "continuous_weights"}
    parts = {"action": action, "observation": ACCOUNT, "portfolio": portfolio}
    return make_env("stock_trading", panel=panel, fill="next_close", **parts)


def test_what_is_deselected_is_sold_at_its_next_tradable_bar():
    close = np.array([[10, 10], [12, 11], [12, 13], [12, 14], [12, 15], [12, 16]], float)
    tradable = np.ones(close.shape, bool)
    tradable[3, 0] = False
    panel = replace(panel_of(close), tradable=tradable)
    env = make_env(
        "stock_trading",
        panel=panel,
        action={"class": "continuous_weights"},
        fill="next_close",
        episode_bars=None,
        observation=ACCOUNT,
        portfolio=[{"class": "momentum", "kwargs": {"k": 1, "lookback": 1}}],
    )
    env.reset()
    held = []
    for _ in range(3):
        env.step(np.array([[0.5, 0.5]], np.float32))
        held.append((env.view.positions[0] > 0).tolist())
    # At bar 2 the second gains more; the first has no bar at 3 and is sold at 4.
    assert held == [[True, False], [True, True], [False, True]]


def test_a_selection_holds_until_its_period_is_over():
    times = np.datetime64("2024-01-29", "ns") + np.arange(4) * np.timedelta64(1, "D")
    close = np.array([[10, 10], [9, 11], [12, 10], [10, 12]], float)
    panel = MarketPanel.from_arrays({"timestamps": times, "assets": ["A0", "A1"], "close": close})
    assert selected(panel, stage("momentum", k=1, lookback=1)) == [[0, 0], [0, 1], [1, 0], [0, 1]]
    monthly = selected(panel, stage("momentum", k=1, lookback=1, rebalance="month"))
    assert monthly == [[0, 0], [0, 0], [0, 0], [0, 1]]


@pytest.mark.parametrize(
    ("period", "begins"),
    [
        ("bar", [1, 1, 1, 1, 1, 1]),
        ("day", [1, 0, 1, 1, 1, 1]),
        ("week", [1, 0, 0, 1, 0, 1]),
        ("month", [1, 0, 0, 1, 0, 1]),
        ("quarter", [1, 0, 0, 1, 0, 0]),
    ],
)
def test_periods_are_those_of_the_calendar(period, begins):
    moments = ["2023-12-29T10", "2023-12-29T16", "2023-12-31T10", "2024-01-01T00", "2024-01-05T00", "2024-02-05T00"]
    panel = replace(panel_for(bars=6), timestamps=np.array(moments, "datetime64[ns]"))
    assert first_bars(panel, period).astype(int).tolist() == begins


@pytest.mark.parametrize("since", [0, 1, 2, 30, 59])
def test_returns_from_a_bar_on_are_those_of_all_bars(since):
    panel = panel_for()
    np.testing.assert_array_equal(bar_returns(panel, since), bar_returns(panel)[since:])


@pytest.mark.parametrize("alias", ["liquidity", "momentum"])
def test_what_is_selected_at_some_bars_is_what_is_selected_at_all_of_them(alias):
    panel, selector = panel_for(), stage(alias)
    every = selector.selects(panel, np.arange(60))
    for bars in ([0], [59], [3, 17, 40], [7, 8, 9]):
        np.testing.assert_array_equal(selector.selects(panel, np.array(bars)), every[bars])

"""Splits, gaps and ends: no money appears or vanishes, and nothing is accepted that has no effect."""

from __future__ import annotations

import numpy as np
import pytest

from alphaswarm_rl import MarketPanel, make_env
from alphaswarm_rl.core.errors import AlphaSwarmError
from tests.envs.panels import random_panel

FREE = {"commission_rate": 0.0, "half_spread_bps": 0.0, "borrow_rate": 0.0}
ACCOUNT = {"class": "portfolio_state", "kwargs": {"pieces": ["cash", "prices", "holdings"]}}


def panel_of(close, **columns):
    close = np.asarray(close, float).reshape(len(close), -1)
    days = np.datetime64("2024-01-01") + np.arange(len(close)).astype("timedelta64[D]")
    names = [f"A{index}" for index in range(close.shape[1])]
    more = {name: np.asarray(values, float).reshape(close.shape) for name, values in columns.items()}
    return MarketPanel.from_arrays({"timestamps": days, "assets": names, "close": close, **more})


def account(panel, **kwargs):
    kwargs = {"fill": "next_close", "observation": ACCOUNT, "phase": "evaluate", "costs": FREE, **kwargs}
    env = make_env("stock_trading", panel=panel, **kwargs)
    env.reset()
    return env


def orders(env, *units):
    """Steps with these orders for the first asset; the others get none."""
    results = []
    for number in units:
        action = np.zeros((1, env.plan.panel.num_assets), np.float32)
        action[0, 0] = number / 100
        results.append(env.step(action))
    return results


@pytest.mark.parametrize("day", [2, 3])
def test_a_split_makes_no_money_on_a_gap_either(day):
    splits = np.ones(6)
    splits[day] = 2.0
    env = account(panel_of([10, 10, np.nan, 5, 5, 5], splits=splits))
    values = [result[4]["portfolio_value"][0] for result in orders(env, 100, 0, 0, 0, 0)]
    assert values == [1_000_000.0] * 5


def test_units_ordered_before_a_split_are_twice_as_many_after_it():
    env = account(panel_of([10, 10, 5, 5], splits=[1, 1, 2, 1]))
    orders(env, 100, -100)
    assert env.view.positions[0, 0] == 0.0
    env = account(panel_of([10, 5, 5, 5], splits=[1, 2, 1, 1]))
    orders(env, 100)
    assert env.view.positions[0, 0] == 200.0
    assert env.view.cash[0] == 1_000_000.0 - 1000.0


def test_the_gate_sells_everything_over_a_split_too():
    panel = panel_of([10, 10, 5, 5], splits=[1, 1, 2, 1]).with_market_features({"turbulence": np.array([0, 9, 9, 9.0])})
    env = account(panel, turbulence_threshold=5.0)
    orders(env, 100, 0)
    assert env.view.positions[0, 0] == 0.0


def test_observations_see_no_fall_in_a_split():
    panel = panel_of([10, 10, 5, 5.5, 5.5], splits=[1, 1, 2, 1, 1])
    parts = [ACCOUNT, {"class": "lookback_stack", "kwargs": {"lookback": 1, "features": [], "price_returns": True}}]
    env = account(panel, observation={"class": "stacked", "kwargs": {"parts": parts}})
    shown = [result[0][0] for result in orders(env, 0, 0)]
    names = env.feature_names
    assert [row[names.index("price:A0")] for row in shown] == pytest.approx([0.0, 0.1])
    assert [row[names.index("return:A0:t-0")] for row in shown] == pytest.approx([0.0, 0.1])


@pytest.mark.parametrize("fill", ["next_close", "same_close"])
def test_an_asset_that_ends_cannot_be_bought_again_and_says_why_it_was_closed(fill):
    close = [[10, 10], [11, 10], [12, 10], [np.nan, 10], [np.nan, 10], [np.nan, 10]]
    env = account(panel_of(close), fill=fill, action={"class": "continuous_weights"})
    closed = []
    for _ in range(4):
        infos = env.step(np.array([[1.0, 0.0]], np.float32))[4]
        closed.append(sorted(infos.get("closed", {})))
        if env.view.bar[0] >= 2:
            assert env.view.positions[0, 0] == 0.0
    assert closed == [[], ["asset_end"], [], []]


def test_an_account_worth_nothing_shows_numbers():
    close = np.array([[1, 1], [1, 1], [1e-3, 1], [1e-3, 1], [np.nan, 1], [np.nan, 1]])
    env = account(panel_of(close), initial_cash=105.0, costs={**FREE, "commission_minimum": 5.0})
    results = orders(env, 100, 0, 0, 0)
    assert all(np.isfinite(result[0]).all() for result in results)
    assert results[-1][4]["portfolio_value"][0] == 0.0
    assert results[-1][4]["nav_return"][0] == 0.0


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        ({"margin": {}}, "bound by cash"),
        ({"action": {"class": "continuous_weights", "kwargs": {"short": True}}}, "cannot be short"),
        ({"action": {"class": "continuous_weights"}, "hmax": 5}, "'hmax'"),
        ({"reward": {"class": "log_return"}, "reward_scaling": 5.0}, "'reward_scaling'"),
        ({"observation": {"class": "next_open"}}, "cheat_on_open"),
        ({"compat": "finrl", "fill": "next_open"}, "compat: finrl"),
        ({"phase": "eval"}, "phase 'eval'"),
        ({"backend": "jax"}, "backend 'jax'"),
        ({"device": "cuda", "backend": "numpy"}, "device 'cuda'"),
        ({"num_envs": 7, "single": True}, "single=True"),
        ({"num_envs": "4"}, "whole number"),
        ({"panel": [1, 2]}, "MarketPanel.from_frame"),
    ],
)
def test_what_would_have_no_effect_is_refused(kwargs, words):
    with pytest.raises(AlphaSwarmError, match=words):
        make_env("stock_trading", **{"panel": random_panel(1), **kwargs})


def test_environments_without_a_market_take_none():
    with pytest.raises(AlphaSwarmError, match="takes none"):
        make_env("cartpole", panel=random_panel(1))


def test_finrls_costs_stay_finrls_where_only_one_is_changed():
    env = make_env("stock_trading", panel=random_panel(1), compat="finrl", costs={"commission_rate": 0.002})
    assert (env.plan.costs.commission_rate, env.plan.costs.half_spread_bps) == (0.002, 0.0)


def test_a_window_in_which_nothing_trades_is_refused():
    close = [[10.0], [10.0], [10.0], [np.nan], [np.nan], [np.nan]]
    panel = panel_of(np.hstack([close, np.ones((6, 1))])).select(["A0"])
    with pytest.raises(AlphaSwarmError, match="none of A0 can be traded"):
        account(panel.window(panel.timestamps[3], None))


@pytest.mark.parametrize("other", ["panel", "parts"])
def test_a_state_of_another_market_or_other_parts_is_refused(other):
    state = account(random_panel(1)).get_state()
    if other == "panel":
        env = account(random_panel(2, bars=30))
    else:
        env = account(random_panel(1), reward={"class": "log_return"})
    with pytest.raises(AlphaSwarmError, match="environment state's"):
        env.set_state(state)


def test_bars_outside_their_own_high_and_low_are_refused():
    with pytest.raises(AlphaSwarmError, match="the close 10 is above the high 5"):
        panel_of([10, 10], high=[5, 11], low=[4, 9])

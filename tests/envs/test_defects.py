"""Defects of published trading environments: one test for each, named after it, on what must happen instead."""

from __future__ import annotations

import numpy as np
import pytest

from alphaswarm_rl import MarketPanel, make_env
from tests.envs.panels import random_panel

FREE = {"commission_rate": 0.0, "half_spread_bps": 0.0, "borrow_rate": 0.0}


def panel_of(close, opens=None):
    close = np.asarray(close, float)
    days = np.datetime64("2024-01-01") + np.arange(len(close)).astype("timedelta64[D]")
    arrays = {"timestamps": days, "assets": [f"A{index}" for index in range(close.shape[1])], "close": close}
    if opens is not None:
        arrays["open"] = np.asarray(opens, float)
    return MarketPanel.from_arrays(arrays)


def account(panel, **kwargs):
    kwargs = {"fill": "next_close", "observation": {"class": "portfolio_state"}, "phase": "evaluate", **kwargs}
    env = make_env("stock_trading", panel=panel, **kwargs)
    env.reset()
    return env


def test_0_5_cash_comes_first_in_scores_and_in_names():
    # One file had cash last and the other cash first: every asset was shifted by one.
    env = account(panel_of([[10.0, 10.0]] * 3), action={"class": "softmax_weights"}, costs=FREE)
    assert env.feature_names == ("cash", "holding:A0", "holding:A1")
    observation = env.step(np.array([[-10.0, -10.0, 10.0]], np.float32))[0]
    np.testing.assert_allclose(observation[0], [0.0, 0.0, 1.0], atol=1e-6)
    observation = env.step(np.array([[10.0, -10.0, -10.0]], np.float32))[4]["final_obs"]
    np.testing.assert_allclose(observation[0], [1.0, 0.0, 0.0], atol=1e-6)


def test_0_9_an_illegal_action_is_masked_and_not_traded():
    env = make_env("tradesim_algotrading", panel=random_panel(1, assets=1, gaps=False), margin=None, initial_cash=10.0)
    env.reset()
    hold = 1
    assert env.action_masks()[0].tolist() == [False, True, False]  # nothing to sell, and no money to buy with
    for action in (0, 2):
        infos = env.step(np.array([action]))[4]
        assert infos["cost"][0] == 0.0
        assert env.view.positions[0, 0] == 0.0
    assert env.action_masks()[0, hold]


def test_0_10_opening_a_short_costs_its_costs_alone():
    env = make_env("tradesim_algotrading", panel=panel_of([[100.0]] * 12), fill="next_close", costs=FREE)
    env.reset()
    infos = env.step(np.array([0]))[4]
    assert env.view.positions[0, 0] == -1.0
    assert infos["portfolio_value"][0] == pytest.approx(100_000.0)


def test_0_11_the_fee_is_on_risky_assets_and_not_on_the_cash_leg():
    costs = {**FREE, "commission_rate": 0.001}
    env = account(panel_of([[50.0]] * 3), action={"class": "continuous_weights"}, costs=costs, initial_cash=100_000.0)
    infos = env.step(np.ones((1, 1), np.float32))[4]
    assert infos["cost"][0] == pytest.approx(100_000 * 0.001 / 1.001)
    assert infos["turnover"][0] == pytest.approx(1 / 1.001)


def test_0_12_the_step_that_consumes_the_last_bar_ends_the_episode_and_no_reward_comes_twice():
    env = account(panel_of([[10.0], [11.0], [12.0], [13.0]]), action={"class": "continuous_weights"}, costs=FREE)
    rewards, ends = [], []
    for _ in range(3):
        _, reward, _, truncated, _ = env.step(np.ones((1, 1), np.float32))
        rewards.append(reward[0])
        ends.append(bool(truncated[0]))
    assert ends == [False, False, True]
    assert sum(rewards) == pytest.approx((1_000_000 * 13 / 11 - 1_000_000) * 1e-4)


def test_0_13_the_default_fill_has_not_been_seen():
    env = account(panel_of([[10.0], [20.0], [20.0]], [[10.0], [15.0], [20.0]]), fill="next_open", costs=FREE)
    env.step(np.ones((1, 1), np.float32))
    assert env.view.cash[0] == 1_000_000 - 100 * 15.0
    assert make_env("stock_trading", panel=random_panel(1)).plan.fill.name == "next_open"


def test_0_15_a_late_start_is_not_filled_from_the_future_and_drops_nobody():
    close = [[10.0, np.nan], [10.0, np.nan], [10.0, 40.0], [10.0, 44.0]]
    env = account(
        panel_of(close),
        action={"class": "continuous_weights"},
        costs=FREE,
        observation={"class": "portfolio_state", "kwargs": {"pieces": ["prices", "holdings"], "raw": True}},
    )
    assert env.reset()[0][0].tolist() == [10.0, 0.0, 0.0, 0.0]
    env.step(np.array([[0.0, 1.0]], np.float32))
    assert env.view.positions[0].tolist() == [0.0, 0.0]  # it cannot be bought before it is there
    env.step(np.array([[0.0, 1.0]], np.float32))
    assert env.view.positions[0, 1] == pytest.approx(25_000.0)


def test_0_17_what_can_be_traded_is_said_by_the_bar_itself_and_not_by_later_ones():
    close = np.full((6, 1), 10.0)
    gone = close.copy()
    gone[4] = np.nan
    accounts = [account(panel_of(bars), action={"class": "continuous_weights"}) for bars in (close, gone)]
    for _ in range(3):
        values = [env.step(np.ones((1, 1), np.float32))[4]["portfolio_value"][0] for env in accounts]
        assert values[0] == values[1]


def test_0_18_the_reward_of_a_step_is_that_of_its_own_action():
    # The published one paid the move of the old position, so that the last action earned nothing.
    env = account(panel_of([[10.0], [10.0], [10.0], [20.0]]), action={"class": "continuous_weights"}, costs=FREE)
    env.step(np.zeros((1, 1), np.float32))
    env.step(np.ones((1, 1), np.float32))
    reward = env.step(np.ones((1, 1), np.float32))[1]
    assert reward[0] == pytest.approx(1_000_000 * 1e-4)


def test_0_18_nothing_shown_is_of_a_later_day():
    panel = random_panel(3, gaps=False)
    env = account(panel, observation={"class": "technical_indicators"})
    for step in range(1, 10):
        observation = env.step(np.zeros((1, panel.num_assets), np.float32))[0]
        np.testing.assert_array_equal(observation[0], panel.features[step].reshape(-1))


def test_0_19_weights_below_one_are_not_scaled_up():
    env = account(panel_of([[10.0, 20.0]] * 4), action={"class": "continuous_weights"}, costs=FREE)
    env.step(np.array([[0.25, 0.25]], np.float32))
    assert env.view.cash[0] == pytest.approx(500_000.0)
    env.step(np.zeros((1, 2), np.float32))
    assert env.view.cash[0] == pytest.approx(1_000_000.0)


@pytest.mark.parametrize("move", [0.5, 2.0])
def test_0_22_an_improper_stop_never_pays(move):
    close = [[10.0], [10.0], [10.0 * move], [10.0 * move * 0.4], [10.0]]
    terminations = [{"class": "drawdown", "kwargs": {"limit": 0.45}}]
    returns = []
    for reward in ({"class": "log_return"}, _with_stop(0.2)):
        env = account(
            panel_of(close),
            action={"class": "continuous_weights"},
            terminations=terminations,
            reward=reward,
            phase="train",
            episode_bars=None,
        )
        total, ended = 0.0, False
        while not ended:
            _, reward_of_step, terminated, truncated, infos = env.step(np.ones((1, 1), np.float32))
            total += reward_of_step[0]
            ended = bool(terminated[0] or truncated[0])
        assert infos["improper_stop"][0]
        assert infos["reason"][0] == "drawdown"
        returns.append(total)
    assert returns[1] == pytest.approx(returns[0] - 0.8 * abs(returns[0]))


def _with_stop(coef):
    terms = [{"class": "log_return"}, {"class": "stop_properly", "kwargs": {"coef": coef}}]
    return {"class": "composite", "kwargs": {"terms": terms}}


def test_softmax_can_concentrate():
    # Scores bounded to [0, 1] capped any of 30 weights at 8 %.
    env = account(panel_of(np.full((3, 30), 10.0)), action={"class": "softmax_weights"}, costs=FREE)
    scores = np.full((1, 31), -10.0, np.float32)
    scores[0, 7] = 10.0
    env.step(scores)
    assert env.view.weights[0, 6] > 0.9999


def test_a_portfolio_step_earns_one_bar_and_not_two():
    env = account(
        panel_of([[10.0], [10.0], [11.0], [12.1]]), action={"class": "continuous_weights"}, costs=FREE,
        reward={"class": "log_return"},
    )  # fmt: skip
    rewards = [env.step(np.ones((1, 1), np.float32))[1][0] for _ in range(3)]
    np.testing.assert_allclose(rewards, [0.0, np.log(1.1), np.log(1.1)], atol=1e-9)


def test_an_indicator_that_happens_to_be_one_blocks_no_trade():
    # The published test for tradability compared the first indicator with True.
    panel = panel_of([[10.0]] * 4).with_features({"macd": np.ones((4, 1))})
    env = make_env("stock_trading", panel=panel, fill="next_close")
    env.reset()
    env.step(np.ones((1, 1), np.float32))
    assert env.view.positions[0, 0] == 100.0

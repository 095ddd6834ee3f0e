"""What is kept of judged accounts reconciles with their values, and equal weights pay what everybody pays."""

import numpy as np
import pytest

from alphaswarm_rl import make_env
from alphaswarm_rl.runtime.account_history import (
    MOST_PERIODS,
    AccountHistory,
    PlayedAccount,
    account_evidence,
    equal_weight_values,
)
from alphaswarm_rl.statistics.allocations import equal_weights
from tests.envs.panels import random_panel

COSTS = {"commission_rate": 0.001, "half_spread_bps": 3.0}
WEIGHTS = {"class": "continuous_weights"}
SHORT = {"class": "continuous_weights", "kwargs": {"short": True, "gross": 0.8}}
MARGIN = {"initial": 0.5, "maintenance": 0.25}


def world(panel, *, num_envs=1, **kwargs):
    given = {"action": WEIGHTS, "costs": COSTS, "phase": "evaluate", "fill": "next_open", **kwargs}
    env = make_env("stock_portfolio", panel=panel, num_envs=num_envs, observation={"class": "portfolio_state"}, **given)
    env.reset(seed=0)
    return env


@pytest.mark.parametrize("fill", ["next_open", "next_close", "same_close"])
@pytest.mark.parametrize("actions", [False, True], ids=["plain", "splits and dividends"])
@pytest.mark.parametrize("short", [False, True], ids=["long", "short"])
def test_the_profits_of_assets_are_the_accounts_before_costs(fill, actions, short):
    kind = {"action": SHORT, "margin": MARGIN} if short else {"action": WEIGHTS}
    env = world(random_panel(3, bars=60, actions=actions), num_envs=3, fill=fill, **kind)
    history, rng = AccountHistory(env.plan, env), np.random.default_rng(5)
    paid = np.zeros(3)
    for _ in range(env.plan.length - 1):
        drawn = rng.uniform(-1.0 if short else 0.0, 1.0, (3, 4)).astype(np.float32)
        _, _, terminated, truncated, infos = env.step(drawn)
        ended = terminated | truncated
        assert not ended.any()
        history.add(infos, ended)
        paid += infos["cost"] + infos["carry"]
    earned = env.view.value - env.plan.initial_cash
    for index in range(3):
        account = history.end_episode(index)
        assert account.profits.sum() == pytest.approx(earned[index] + paid[index], rel=1e-9)
        assert account.values[-1] == env.view.value[index]
        assert account.measures["final_value"] == env.view.value[index]


def test_the_last_bar_and_the_next_episode_are_told_apart():
    env = world(random_panel(4, bars=12, assets=1, gaps=False), num_envs=1)
    close = env.market.close[:, 0]
    history = AccountHistory(env.plan, env)
    for _ in range(2):
        for step in range(env.plan.length):
            _, _, terminated, truncated, infos = env.step(np.ones((1, 1), np.float32))
            ended = terminated | truncated
            history.add(infos, ended)
            assert ended[0] == (step == env.plan.length - 1)
        account = history.end_episode(0)
        assert len(account.values) == env.plan.length + 1
        # Bought at the open of the second bar, and held to the close of the last.
        bought = env.market.fill_price[1, 0]
        units = (account.values[1] + 0.0) / close[1]
        assert account.profits[0] == pytest.approx(units * (close[-1] - bought), rel=1e-6)


def test_equal_weights_are_what_the_rule_makes_of_the_same_environment():
    env = world(random_panel(7, bars=50))
    values = [env.plan.initial_cash]
    for bar in range(env.plan.first_bar, env.plan.last_bar):
        weights = equal_weights(env.plan.panel, bar)[None].astype(np.float32)
        values.append(float(env.step(weights)[4]["portfolio_value"][0]))
    assert equal_weight_values(env.plan, env.plan.length).tolist() == values
    assert equal_weight_values(env.plan, 3).tolist() == values[:4]
    free = world(random_panel(7, bars=50), costs={"commission_rate": 0.0, "half_spread_bps": 0.0})
    assert equal_weight_values(free.plan, 40)[-1] > values[40]


def test_the_action_of_a_policy_is_not_that_of_equal_weights():
    plain = world(random_panel(7, bars=50))
    orders = world(random_panel(7, bars=50), action={"class": "integer_shares"})
    expected = equal_weight_values(plain.plan, 30).tolist()
    assert equal_weight_values(orders.plan, 30).tolist() == expected


def played(values, profits=(1.0, 2.0, 3.0, 4.0)):
    return PlayedAccount({}, np.asarray(values, float), np.asarray(profits, float))


def test_evidence_is_the_mean_of_episodes_by_bar():
    plan = world(random_panel(7, bars=50)).plan
    found = account_evidence(plan, [played([100, 110, 99]), played([100, 90, 90], (3.0, 2.0, 1.0, 0.0))])
    assert found.bars == 2
    assert found.returns == pytest.approx((0.0, -0.05))
    assert found.max_drawdown == pytest.approx(-0.1)
    assert found.profits == {"A0": 2.0, "A1": 2.0, "A2": 2.0, "A3": 2.0}
    assert found.periods_per_year == plan.panel.periods_per_year
    equal = equal_weight_values(plan, 2)
    assert found.equal_weight == pytest.approx(tuple(equal[1:] / equal[:-1] - 1), abs=1e-8)


def test_an_episode_that_ended_early_earns_nothing_from_there_on():
    plan = world(random_panel(7, bars=50)).plan
    found = account_evidence(plan, [played([100, 110]), played([100, 120, 132])])
    assert (found.bars, found.returns) == (2, pytest.approx((0.15, 0.05)))
    assert found.max_drawdown == 0.0


def test_many_bars_are_put_together():
    panel = random_panel(1, bars=2 * MOST_PERIODS + 60, gaps=False)
    plan = world(panel).plan
    values = 100 * 1.001 ** np.arange(2 * MOST_PERIODS + 2)
    found = account_evidence(plan, [played(values)])
    assert found.bars == 2 * MOST_PERIODS + 1
    assert len(found.returns) == len(found.equal_weight) == 667
    assert found.returns[0] == pytest.approx(1.001**3 - 1, rel=1e-8)
    assert found.returns[-1] == pytest.approx(1.001**3 - 1, rel=1e-8)
    assert found.periods_per_year == panel.periods_per_year / 3


def test_as_many_bars_as_are_kept_are_kept_as_they_are():
    plan = world(random_panel(1, bars=MOST_PERIODS + 60, gaps=False)).plan
    found = account_evidence(plan, [played(100 * 1.001 ** np.arange(MOST_PERIODS + 1))])
    assert (found.bars, len(found.returns)) == (MOST_PERIODS, MOST_PERIODS)
    assert found.periods_per_year == plan.panel.periods_per_year

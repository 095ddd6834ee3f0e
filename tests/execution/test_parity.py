"""What was backtested is what trades: environment, environment on the engine, and engine with the bridge are equal.

To the last bit: observations, weights after each stage, orders, fills and the account at every bar.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.envs.panels import random_panel
from tests.execution.plays import asked, assert_engine_did, environment, on_engine, played, policy_of

FILLS = ["next_open", "next_close", "same_close", "cheat_on_open"]
#: Stages by role, in their order; each is there or not.
STAGES = {
    "select": [
        {"class": "momentum", "kwargs": {"k": 2, "lookback": 5}},
        {"class": "liquidity", "kwargs": {"lookback": 3}},
    ],
    "allocate": [
        {"class": "identity"},
        {"class": "softmax", "kwargs": {"temperature": 0.5}},
        {"class": "inverse_volatility", "kwargs": {"lookback": 8}},
    ],
    "time": [
        {"class": "volatility_target", "kwargs": {"lookback": 5}},
        {"class": "turbulence", "kwargs": {"threshold": 80.0, "smoothing": 0.1, "cooldown_bars": 2}},
        {"class": "execution_test_smoothed"},
    ],
    "risk": [
        {"class": "position_cap", "kwargs": {"max_position": 0.2}},
        {"class": "turnover", "kwargs": {"max_turnover": 0.1}},
        {"class": "drawdown", "kwargs": {"max_drawdown": 0.02, "cooldown_bars": 3}},
        {"class": "daily_loss", "kwargs": {"max_daily_loss": 0.01}},
    ],
}
#: Actions by what they trade, and what their account needs.
WEIGHTS = [
    {"class": "softmax_weights"},
    {"class": "continuous_weights"},
    {"class": "target_position", "kwargs": {"leverage": 0.6}},
]
SHORT = {"class": "continuous_weights", "kwargs": {"short": True, "gross": 1.5}}
MARGIN = {"initial": 0.5, "maintenance": 0.25}
UNITS = [
    {"class": "integer_shares", "kwargs": {"hmax": 300}},
    {"class": "integer_shares", "kwargs": {"hmax": 40_000, "unit": "money", "whole": False}},
    {"class": "stop_loss_shares", "kwargs": {"hmax": 300, "stop": 0.97}},
    {"class": "discrete_buy_sell_hold", "kwargs": {"asset": "A0"}},
    {"class": "multi_discrete"},
    {"class": "bracket", "kwargs": {"asset": "A0"}},
    {"class": "masked_discrete", "kwargs": {"asset": "A0", "max_units": 3, "lot": 100}},
]

costs = st.fixed_dictionaries(
    {
        "commission_rate": st.sampled_from([0.0, 0.0005, 0.01]),
        "commission_per_share": st.sampled_from([0.0, 0.01]),
        "commission_minimum": st.sampled_from([0.0, 1.0]),
        "half_spread_bps": st.sampled_from([0.0, 5.0]),
        "impact": st.sampled_from([0.0, 0.1]),
    }
)
rules = st.none() | st.fixed_dictionaries(
    {
        "rebalance_threshold": st.sampled_from([0.0, 0.02]),
        "lot": st.sampled_from([0.0, 1.0, 10.0]),
        "min_notional": st.sampled_from([0.0, 500.0]),
        "max_order_notional": st.sampled_from([None, 20_000.0]),
    }
)


@st.composite
def stages(draw):
    """Stages of every role, in the order of the roles."""
    found = []
    for role, of_role in STAGES.items():
        most = 1 if role in ("allocate", "select") else 2
        found += draw(st.lists(st.sampled_from(of_role), max_size=most, unique_by=lambda stage: stage["class"]))
    return found


@st.composite
def specs(draw, actions, *, sized):
    """Parameters of an environment, and a panel, for actions of one sort."""
    action = draw(st.sampled_from(actions))
    kwargs = {"action": action, "costs": draw(costs), "fill": draw(st.sampled_from(FILLS))}
    if action is SHORT:
        kwargs["margin"] = MARGIN
    if sized is not None:
        kwargs |= {"portfolio": draw(stages()), "sizing": sized}
        kwargs |= {"order_rules": draw(rules)} if sized == "at_decision" else {}
    if draw(st.booleans()):
        kwargs["turbulence_threshold"] = 70.0
    panel = random_panel(draw(st.integers(0, 10_000)), bars=30, assets=3, actions=draw(st.booleans()))
    turbulence = np.random.default_rng(0).uniform(0.0, 100.0, panel.num_bars)
    return kwargs, panel.with_market_features({"turbulence": turbulence})


def assert_equal_everywhere(kwargs, panel, seed):
    env = environment("stock_trading", panel, **kwargs)
    policy = policy_of(env, seed)
    ours, engines = played(env, policy), played(on_engine(env), policy)
    assert ours.keys() == engines.keys()
    for name, array in ours.items():
        np.testing.assert_array_equal(array, engines[name], err_msg=name)
    result, agent = asked(env, policy)
    assert agent.alarms == []
    assert_engine_did(ours, result)
    return env, ours, result


@settings(max_examples=15)
@given(specs([*WEIGHTS, SHORT], sized="at_fill"), st.integers(0, 99))
def test_weights_that_are_traded_to_at_the_fill(spec, seed):
    assert_equal_everywhere(*spec, seed)


@settings(max_examples=15)
@given(specs([*WEIGHTS, SHORT], sized="at_decision"), st.integers(0, 99))
def test_weights_that_become_units_at_the_decision(spec, seed):
    assert_equal_everywhere(*spec, seed)


@pytest.mark.parametrize("action", UNITS, ids=[f"{number}-{each['class']}" for number, each in enumerate(UNITS)])
@settings(max_examples=4)
@given(data=st.data(), seed=st.integers(0, 99))
def test_orders_positions_and_brackets(action, data, seed):
    assert_equal_everywhere(*data.draw(specs([action], sized=None)), seed)


def test_a_play_trades_and_its_stages_are_recorded():
    kwargs = {"action": WEIGHTS[1], "portfolio": STAGES["time"][2:], "sizing": "at_decision"}
    env, _, result = assert_equal_everywhere(kwargs, random_panel(5, bars=30, assets=3), 1)
    assert result.stages == ("continuous_weights", "execution_test_smoothed") == env.decider.stage_names
    assert result.targets.shape == (29, 2, 3)
    assert not np.array_equal(result.targets[:, 0], result.targets[:, 1])
    assert len(result.fills.row) > 20
    assert result.orders is not None
    np.testing.assert_array_equal(result.holdings.quantity, result.positions[1:])
    spent = [result.fills.quantity @ result.fills.price, result.cost.sum()]
    assert result.cash[0] - sum(spent) == pytest.approx(result.cash[-1])


def test_accounts_of_a_batch_are_as_one_by_one():
    panel = random_panel(2, bars=30, assets=3, actions=True)
    kwargs = {"action": UNITS[5], "num_envs": 3}
    env = environment("stock_trading", panel, **kwargs)
    twin, policy = on_engine(env), policy_of(env, 4)
    seen = [batch.reset(seed=7)[0] for batch in (env, twin)]
    for step in range(70):  # more than two episodes
        actions = (policy.act(seen[0], None, deterministic=True, masks=None) + np.array([0, step % 3, step % 5])) % 6
        ours, engines = env.step(actions), twin.step(actions)
        for left, right in zip(ours[:4], engines[:4], strict=True):
            np.testing.assert_array_equal(left, right)
        seen = [ours[0], engines[0]]


def test_a_state_of_the_native_engine_is_put_back_to_the_bit():
    panel = random_panel(3, bars=40, assets=3, actions=True)
    env = environment("stock_trading", panel, action=UNITS[5], num_envs=2)
    first, second, policy = on_engine(env), on_engine(env), policy_of(env, 2)
    seen, _ = first.reset(seed=3)
    second.reset(seed=9)
    for _ in range(11):
        seen = first.step(policy.act(seen, None, deterministic=True, masks=None))[0]
    second.set_state(first.get_state())
    for _ in range(40):
        action = policy.act(seen, None, deterministic=True, masks=None)
        ours, theirs = first.step(action), second.step(action)
        for left, right in zip(ours[:4], theirs[:4], strict=True):
            np.testing.assert_array_equal(left, right)
        seen = ours[0]

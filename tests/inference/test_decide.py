"""Deciding now: what a policy would trade, from bars so far and an account, is what its environment did there."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphaswarm_rl.inference.account import Account
from tests.inference.deciding import ASSETS, START, frame_of_bars, row_of, scene_of, spec_of

WEIGHTS = [
    {"class": "softmax_weights"},
    {"class": "continuous_weights"},
    {"class": "target_position", "kwargs": {"leverage": 0.6}},
]
STAGES = [
    [],
    [{"class": "identity"}],
    [{"class": "momentum", "kwargs": {"k": 2, "lookback": 4}}, {"class": "equal_weight"}],
    [{"class": "softmax"}, {"class": "turbulence", "kwargs": {"threshold": 3.0, "scale": 0.5, "cooldown_bars": 2}}],
    [{"class": "volatility_target", "kwargs": {"lookback": 5}}, {"class": "position_cap"}],
    [{"class": "position_cap"}, {"class": "drawdown", "kwargs": {"max_drawdown": 0.01}}],
    [{"class": "turnover", "kwargs": {"max_turnover": 0.1}}, {"class": "daily_loss"}],
]
COSTS = [
    {},
    {"commission_rate": 0.0, "half_spread_bps": 0.0},
    {"commission_minimum": 2.0, "commission_per_share": 0.01},
    {"impact": 0.1},
]
RULES = [
    {},
    {"sizing": "at_decision"},
    {"sizing": "at_decision", "order_rules": {"lot": 1, "min_notional": 50, "rebalance_threshold": 0.01}},
]
OTHERS = [
    {"class": "integer_shares", "kwargs": {"hmax": 200}},
    {"class": "stop_loss_shares", "kwargs": {"hmax": 200, "stop": 0.98}},
    {"class": "bracket", "kwargs": {"asset": "A"}},
    {"class": "discrete_buy_sell_hold"},
    {"class": "masked_discrete"},
]
OBS = [{}, {"normalize": "fixed", "stack_frames": 2}]


def remembers(spec):
    """Whether one look at the account does not say what the policy needs."""
    stages = {ref["class"] for ref in spec.env.kwargs.get("portfolio", ())}
    return bool(stages & {"drawdown", "daily_loss"}) or (spec.obs.stack_frames or 1) > 1


def ordered(decision):
    units = {order.symbol: order.signed_quantity for order in decision.orders}
    return [units.get(symbol, 0.0) for symbol in decision.assets]


def played(scene, steps=12):
    """Plays the environment with the policy, and decides beside it bar by bar; both on carried features and at once."""
    env = scene.env
    raw = env.unwrapped
    raw.log_trades()
    observation, _ = env.reset()
    policy = scene.server.policy.stream()
    learner = scene.server.policy
    memory, starts = None, np.array([True])
    stream = scene.server.decision_stream(scene.sofar)
    for step in range(steps):
        if step:
            stream.add(row_of(scene.bars, scene.sofar.num_bars - 1))
        account = scene.account()
        yield_bars = scene.sofar
        masks = env.action_masks() if hasattr(raw, "action_masks") else None
        action, memory = learner.predict(observation, memory, starts, deterministic=True, masks=masks)
        decided = stream.decide(account)
        observation, _, terminated, truncated, infos = env.step(action)
        yield account, yield_bars, decided, infos["trades"], raw
        starts = terminated | truncated
        if starts[0]:
            return
    assert policy is not None


def same(decision, trades, raw):
    """A decision is what the environment did."""
    targets = trades["targets"][0]
    if decision.targets == "position":
        targets = np.full((len(targets), len(ASSETS)), np.nan)
        targets[:, raw.trade.asset] = trades["targets"][0]
    np.testing.assert_array_equal(decision.by_stage, targets)
    if raw._decision.sized is not None:
        assert not decision.indicative
        np.testing.assert_array_equal(ordered(decision), raw._decision.sized.orders[0])
    else:
        assert decision.indicative


@given(
    seed=st.integers(0, 1000),
    action=st.sampled_from(WEIGHTS),
    stages=st.sampled_from(STAGES),
    costs=st.sampled_from(COSTS),
    rules=st.sampled_from(RULES),
    fill=st.sampled_from(["next_open", "next_close", "same_close"]),
    obs=st.sampled_from(OBS),
)
@settings(max_examples=15)
def test_a_decision_is_what_the_environment_did_at_that_bar(
    tmp_path_factory, seed, action, stages, costs, rules, fill, obs
):
    from alphaswarm_rl.settings import Settings

    frame = frame_of_bars(seed)
    env = {"portfolio": stages, "costs": costs, "fill": fill, **rules}
    spec = spec_of(frame, env_kwargs=env, action=action, obs=obs)
    scene = scene_of(spec, frame, Settings(home=tmp_path_factory.mktemp("home")))
    for step, (account, bars, decided, trades, raw) in enumerate(played(scene)):
        same(decided, trades, raw)
        if step == 0 or not remembers(spec):
            same(scene.server.decide(bars, account), trades, raw)

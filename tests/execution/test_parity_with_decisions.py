"""One policy, one stream of bars, four ways: environment, RLBacktestEnv, engine with the bridge, decide.

The policy is a checkpoint's, as training would begin with it. Decisions get bars one by one and the engine's account;
what they say is what the engine trades.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from alphaswarm_rl.arrays.backend_numpy import NUMPY
from alphaswarm_rl.execution.decision import Decision
from alphaswarm_rl.execution.engine import BacktestRequest
from alphaswarm_rl.execution.native import NativeEngine
from alphaswarm_rl.market.market import market_of
from alphaswarm_rl.settings import Settings
from tests.execution.plays import assert_engine_did, on_engine, played, policy_of
from tests.execution.test_parity import FILLS, MARGIN, SHORT, UNITS, WEIGHTS, costs, rules, stages
from tests.inference.deciding import ASSETS, START, account_of, frame_of_bars, row_of, scene_of, spec_of


class Deciding:
    """A strategy that takes the bars one by one and decides on the account; the agent is asked beside it.

    Attributes:
        decided: The decisions, bar by bar.
    """

    def __init__(self, scene, first):
        self._scene, self._first = scene, first
        self._stream = scene.server.decision_stream(scene.bars.cut(0, START + 1))
        self.decided = []

    def __call__(self, account, context):
        bar = START + int(account.bar[0]) - self._first
        if self.decided:
            self._stream.add(row_of(self._scene.bars, bar))
        self.decided.append(self._stream.decide(account_of(account)))
        return self._decision(account, context, self.decided[-1])

    def _decision(self, account, context, decided):
        return Decision(decided.target[None], tuple(row[None] for row in decided.by_stage))


class DecidingBeside(Deciding):
    """The same for shares and positions, whose stops the engine gets of the agent: what is decided is compared."""

    def _decision(self, account, context, decided):
        agent = context["rl_agent"]
        asked = agent.consult(account)
        for row, (_, targets) in zip(decided.by_stage, asked.history, strict=True):
            if decided.targets == "position":
                np.testing.assert_array_equal(row[agent.decider.trade.asset], targets[0])
            else:
                np.testing.assert_array_equal(row, targets[0])
        legs = agent.decider.legs(account)
        for order in decided.orders:
            if order.stop_loss is not None:
                assert (order.stop_loss, order.take_profit) == (legs[0][0], legs[1][0])
        return asked.decision


def everywhere(spec, frame, home, strategy, *, mixes=False):
    """Plays all four and compares them; gives what the environment did, and what was decided bar by bar.

    Args:
        spec: What is played.
        frame: The bars.
        home: Where settings are.
        strategy: What decides.
        mixes: Whether actions mix all that is observed, where those of a new network hardly change.
    """
    scene = scene_of(spec, frame, Settings(home=home))
    env, policy = scene.env.unwrapped, scene.server.policy
    if mixes:
        mixed = policy_of(env, 5)

        def predict(observation, *_, masks=None, **__):
            return mixed.act(observation, None, deterministic=True, masks=masks), None

        policy._learner.predict = predict
    ours, engines = played(env, policy.stream()), played(on_engine(env), policy.stream())
    assert ours.keys() == engines.keys()
    for name, array in ours.items():
        np.testing.assert_array_equal(array, engines[name], err_msg=name)
    market = market_of(env.plan.panel, env.plan.fill, NUMPY)
    agent = policy.bridge(market)
    request = BacktestRequest.of_plan(env.plan, market, agent.decider)
    assert_engine_did(ours, NativeEngine().run(request, agent=agent))
    assert agent.alarms == []
    deciding = strategy(scene, request.first_bar)
    # Decisions do not say what was compared with limits.
    assert_engine_did(ours, NativeEngine().run(request, deciding, agent=policy.bridge(market)), unknown=("measured",))
    return ours, deciding.decided


def orders(decided):
    """Units ordered, (bars, A)."""
    units = [{order.symbol: order.signed_quantity for order in each.orders} for each in decided]
    return np.array([[each.get(symbol, 0.0) for symbol in ASSETS] for each in units])


@st.composite
def weights(draw, sizing):
    """Parameters of an environment whose actions are weights, and the action."""
    action = draw(st.sampled_from([*WEIGHTS, SHORT]))
    env = {"costs": draw(costs), "fill": draw(st.sampled_from(FILLS)), "portfolio": draw(stages()), "sizing": sizing}
    env |= {"margin": MARGIN} if action is SHORT else {}
    env |= {"order_rules": draw(rules)} if sizing == "at_decision" else {}
    if draw(st.booleans()):
        env["turbulence_threshold"] = 3.0
    return env, action


@effort(max_examples=8)
@given(weights("at_decision"), st.integers(0, 1000), st.booleans())
def test_weights_sized_at_the_decision(tmp_path_factory, spec, seed, actions):
    env, action = spec
    frame = frame_of_bars(seed, actions=actions)
    ours, decided = everywhere(
        spec_of(frame, env_kwargs=env, action=action), frame, tmp_path_factory.mktemp("home"), Deciding
    )
    assert not any(each.indicative for each in decided)
    assert len(decided) >= len(ours["cash"])


@effort(max_examples=6)
@given(weights("at_fill"), st.integers(0, 1000), st.booleans())
def test_weights_sized_at_the_fill(tmp_path_factory, spec, seed, actions):
    env, action = spec
    frame = frame_of_bars(seed, actions=actions)
    ours, decided = everywhere(
        spec_of(frame, env_kwargs=env, action=action), frame, tmp_path_factory.mktemp("home"), Deciding
    )
    assert all(each.indicative for each in decided)
    if env["fill"] == "same_close":  # the price that they are made with is the one that fills
        np.testing.assert_array_equal(orders(decided)[: len(ours["ordered"])], ours["ordered"])


@pytest.mark.parametrize("fill", FILLS)
def test_orders_of_decisions_are_those_that_fill(settings, fill):
    frame = frame_of_bars(3, gaps=False, actions=False)
    env = {"fill": fill, "sizing": "at_decision", "order_rules": {"lot": 1.0}}
    ours, decided = everywhere(spec_of(frame, env_kwargs=env, action=WEIGHTS[0]), frame, settings.home, Deciding)
    ordered = orders(decided)
    assert np.count_nonzero(ordered) > 20
    assert (ordered == np.trunc(ordered)).all()
    # Without splits what is ordered is what fills, unless the fill made it dearer than the cash.
    sells = ordered < 0
    np.testing.assert_array_equal(ours["ordered"][sells], ordered[sells])
    assert (ours["ordered"] <= np.maximum(ordered, 0.0))[~sells].all()
    if fill == "same_close":
        np.testing.assert_array_equal(ours["ordered"], ordered)


@pytest.mark.parametrize("action", UNITS, ids=[f"{number}-{each['class']}" for number, each in enumerate(UNITS)])
@pytest.mark.parametrize("fill", ["same_close", "cheat_on_open"])
def test_shares_positions_and_brackets(settings, action, fill):
    frame = frame_of_bars(11, gaps=False)
    if action.get("kwargs", {}).get("asset"):
        action = {**action, "kwargs": {**action["kwargs"], "asset": "A"}}
    spec = spec_of(frame, env_kwargs={"fill": fill}, action=action)
    ours, decided = everywhere(spec, frame, settings.home, DecidingBeside, mixes=True)
    assert np.count_nonzero(ours["ordered"]) > 2
    assert any(order.stop_loss for each in decided for order in each.orders) == (action["class"] == "bracket")
    if fill == "same_close":
        np.testing.assert_array_equal(orders(decided)[: len(ours["ordered"])], ours["ordered"])

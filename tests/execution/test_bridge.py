"""The bridge: what it asks, what it answers, and what it does when a policy fails."""

from __future__ import annotations

import asyncio
import logging

import numpy as np
import pytest

from alphaswarm_rl.arrays.backend_numpy import NUMPY
from alphaswarm_rl.core.errors import EnvError
from alphaswarm_rl.execution.bridge import RLAgentBridge
from alphaswarm_rl.execution.engine import BacktestRequest
from alphaswarm_rl.execution.native import NativeEngine
from alphaswarm_rl.market.decider import Decider
from alphaswarm_rl.market.market import market_of
from alphaswarm_rl.market.observer import Observer
from tests.envs.panels import random_panel
from tests.execution.plays import MixedPolicy, environment


class Failing(MixedPolicy):
    """Fails on some of its calls, and notes how it was asked."""

    def __init__(self, *args, fails, answer=None):
        super().__init__(*args)
        self.fails, self.answer, self.starts, self.asked = fails, answer, [], 0

    def act(self, observation, episode_start, *, deterministic, masks):
        self.starts.append(bool(episode_start[0]))
        call, self.asked = self.asked, self.asked + 1
        if call in self.fails:
            if self.answer is not None:
                return self.answer
            raise RuntimeError("out of memory")
        return super().act(observation, episode_start, deterministic=deterministic, masks=masks)


def parts(fails=(), answer=None, **kwargs):
    env = environment("stock_trading", random_panel(4, bars=20, assets=3, gaps=False), **kwargs)
    plan = env.plan
    market = market_of(plan.panel, plan.fill, NUMPY)
    decider = Decider(plan.action, plan.stages, market, 1)
    policy = Failing(env.single_observation_space, env.single_action_space, 3, fails=fails, answer=answer)
    return (
        policy,
        RLAgentBridge(policy, Observer(plan.builders, market, 1), decider),
        BacktestRequest.of_plan(plan, market, decider),
    )


WEIGHTS = {"action": {"class": "softmax_weights"}, "portfolio": [{"class": "identity"}]}


def test_a_decision_says_what_was_asked_and_answered():
    _, agent, request = parts(**WEIGHTS)
    account = request.account()
    decided = agent.consult(account)
    assert decided is agent.last_decision
    assert decided.timestamp == request.market.panel.timestamps[0]
    assert [name for name, _ in decided.history] == ["softmax_weights", "identity"]
    np.testing.assert_array_equal(decided.history[-1][1], decided.decision.targets)
    assert decided.raw_action.shape == (1, 4)
    assert (decided.call, decided.alarm) == (1, None)
    target = decided.target_weights()
    assert target.assets == ("A0", "A1", "A2")
    assert target.timestamp == decided.timestamp
    np.testing.assert_array_equal(target.weights, decided.decision.targets[0])


def test_orders_in_units_are_no_target_weights():
    _, agent, request = parts(action={"class": "integer_shares"})
    assert agent.consult(request.account()).target_weights() is None


def test_asked_without_waiting_it_answers_the_same():
    _, agent, request = parts(**WEIGHTS)
    _, other, _ = parts(**WEIGHTS)
    first = asyncio.run(agent.consult_async(request.account()))
    np.testing.assert_array_equal(first.decision.targets, other.consult(request.account()).decision.targets)


def test_a_policy_that_fails_holds_its_last_weights_and_raises_an_alarm(caplog):
    policy, agent, request = parts(fails={6, 7, 12}, **WEIGHTS)
    with caplog.at_level(logging.ERROR):
        result = NativeEngine().run(request, agent=agent)
    for step in (6, 7, 12):
        np.testing.assert_array_equal(result.targets[step], result.targets[step - 1])
    assert not np.array_equal(result.targets[8], result.targets[7])
    assert len(result.alarms) == 3
    assert "RuntimeError: out of memory" in result.alarms[0]
    assert str(request.market.panel.timestamps[6]) in result.alarms[0]
    assert sum("what it decided last is held" in record.message for record in caplog.records) == 3
    assert policy.starts == [True, *[False] * 18]


def test_a_policy_that_fails_at_once_leaves_the_cash():
    _, agent, request = parts(fails={0, 1}, **WEIGHTS)
    result = NativeEngine().run(request, agent=agent)
    assert not result.positions[:3].any()
    assert result.positions[3].any()
    assert len(result.alarms) == 2


@pytest.mark.parametrize(
    "answer", [np.full((1, 4), np.nan), np.zeros((1, 3)), np.full((1, 4), np.inf)], ids=["nan", "shape", "inf"]
)
def test_an_answer_that_is_no_action_is_a_failure(answer):
    _, agent, request = parts(fails={5}, answer=answer, **WEIGHTS)
    result = NativeEngine().run(request, agent=agent)
    np.testing.assert_array_equal(result.targets[5], result.targets[4])
    assert len(result.alarms) == 1
    assert EnvError.__name__ in result.alarms[0]


def test_orders_in_units_are_not_repeated():
    _, agent, request = parts(fails={6}, action={"class": "integer_shares"})
    result = NativeEngine().run(request, agent=agent)
    assert result.positions[6].any()
    np.testing.assert_array_equal(result.positions[7], result.positions[6])
    assert not result.turnover[6]


def test_a_bracket_still_closes_where_the_policy_fails():
    """The stop that was set with the entry needs no policy."""
    action = {"class": "bracket", "kwargs": {"asset": "A0", "stop_losses": [0.01], "take_profits": [5.0]}}
    entered = {"answer": np.array([2]), "fails": {0}}
    policy, agent, request = parts(**entered, action=action)
    policy.fails = set(range(20))
    policy.answer = np.array([2])
    always = NativeEngine().run(request, agent=agent)

    def fails_later(observation, episode_start, *, deterministic, masks):
        if not episode_start[0]:
            raise RuntimeError("gone")
        return np.array([2])

    policy.act = fails_later
    result = NativeEngine().run(request, agent=agent)
    stopped = np.flatnonzero(always.log["exit_stop"].any(axis=1))
    assert len(stopped) > 0
    first = int(stopped[0])
    np.testing.assert_array_equal(result.equity[: first + 2], always.equity[: first + 2])
    assert result.positions[first + 1, 0] == 0
    assert not result.positions[first + 1 :].any()


def test_an_episode_begins_with_nothing_remembered():
    policy, agent, request = parts(fails={3}, **WEIGHTS)
    first = NativeEngine().run(request, agent=agent)
    policy.fails = set()
    again = NativeEngine().run(request, agent=agent)
    assert first.alarms
    assert again.alarms == ()
    assert policy.starts.count(True) == 2
    assert agent.calls == 19

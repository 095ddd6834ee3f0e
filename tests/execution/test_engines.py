"""What holds for every registered engine, and what each refuses."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from alphaswarm_rl.arrays.backend_numpy import NUMPY
from alphaswarm_rl.core import catalogue
from alphaswarm_rl.core.contracts import EngineCapabilities, Trade
from alphaswarm_rl.core.errors import BookError, OrderError
from alphaswarm_rl.core.kinds import BaseBacktestEngine
from alphaswarm_rl.core.orders import TargetWeights
from alphaswarm_rl.execution.bridge import BaseRLAgentBridge, NoopRLAgentBridge, RLDecision
from alphaswarm_rl.execution.decision import Decision
from alphaswarm_rl.execution.engine import BacktestRequest, EngineSession
from alphaswarm_rl.execution.native import NativeEngine
from alphaswarm_rl.execution.native_session import NativeSession
from alphaswarm_rl.execution.stepped_engine import SteppedEngine, ask_agent
from alphaswarm_rl.market.costs import CostModel
from alphaswarm_rl.market.fills import FILL_POLICIES, fill_policy
from alphaswarm_rl.market.margin import Margin
from alphaswarm_rl.market.market import market_of
from alphaswarm_rl.market.sizing import SizingRules
from tests.envs.panels import random_panel


class DeafEngine(SteppedEngine):
    """An engine whose strategies cannot ask an agent."""

    rl_alias = "execution_test_deaf"
    capabilities = EngineCapabilities(
        supports_rl_injection=False,
        fills=frozenset({"next_open"}),
        trades=frozenset({"weights"}),
        sizings=frozenset({"at_fill", "at_decision"}),
    )

    def open(self, request, account):
        self.check(request)
        return NativeSession(request, account)


ENGINES = catalogue.listing("backtest_engine")
every_engine = pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.rl_alias)


def request_for(engine, *, bars=20, fill=None, **kwargs):
    """A request that the engine can play."""
    can = engine.capabilities
    panel = random_panel(1, bars=bars, assets=3, gaps=False)
    market = market_of(panel, fill_policy(fill or min(can.fills)), NUMPY)
    sizing = {"sizing": SizingRules()} if "at_decision" in can.sizings else {}
    return BacktestRequest(market, **{**sizing, **kwargs})


class CountingBridge(BaseRLAgentBridge):
    """Wants a third of everything, and notes the bars it was asked at."""

    def __init__(self):
        super().__init__()
        self.bars = []

    def _decide(self, account):
        self.bars.append(int(account.bar[0]))
        decision = Decision.of_weights(np.full(account.market.assets, 0.3))
        return RLDecision(
            np.datetime64("2020-01-01"), account.market.panel.assets, "weights", decision, None, (), self.calls
        )


def test_both_engines_are_registered():
    assert {engine.rl_alias for engine in ENGINES} >= {"native", "backtrader"}
    assert all(issubclass(engine, BaseBacktestEngine) for engine in ENGINES)


@every_engine
def test_the_agent_is_in_the_context_just_where_the_engine_says_so_and_is_asked_once_per_bar(engine):
    request, agent, contexts = request_for(engine), CountingBridge(), []

    def strategy(account, context):
        contexts.append(context)
        return ask_agent(account, context) if "rl_agent" in context else None

    if engine.capabilities.supports_rl_injection:
        result = engine().run(request, strategy, agent=agent)
        assert all(context["rl_agent"] is agent for context in contexts)
        assert agent.bars == list(range(19))
        assert agent.calls == len(contexts) == 19
        assert result.equity[-1] != result.equity[0]
    else:
        engine().run(request, strategy)
        assert len(contexts) == 19
        assert all("rl_agent" not in context for context in contexts)
        with pytest.raises(BookError, match="cannot ask one"):
            engine().run(request, strategy, agent=agent)


@every_engine
def test_without_a_strategy_the_agent_decides(engine):
    if engine.capabilities.supports_rl_injection:
        asked = engine().run(request_for(engine), agent=CountingBridge())
        given = engine().run(request_for(engine), lambda *_: Decision.of_weights(np.full(3, 0.3)))
        np.testing.assert_array_equal(asked.equity, given.equity)
    else:
        with pytest.raises(BookError, match="Hand in a strategy"):
            engine().run(request_for(engine))


@every_engine
def test_an_agent_that_does_nothing_leaves_the_cash(engine):
    strategy = None if engine.capabilities.supports_rl_injection else lambda *_: None
    result = engine().run(request_for(engine, cash=1234.5), strategy)
    np.testing.assert_array_equal(result.equity, np.full(20, 1234.5))
    np.testing.assert_array_equal(result.positions, np.zeros((20, 3)))
    assert np.isnan(result.targets).all()
    assert len(result.fills.row) == 0


@every_engine
def test_where_nothing_is_decided_what_is_held_stays(engine):
    def once(account, context):
        return Decision.of_weights(np.array([0.5, 0.2, 0.0])) if account.bar[0] == 4 else None

    result = engine().run(request_for(engine), once)
    np.testing.assert_array_equal(result.positions[:5], np.zeros((5, 3)))
    assert (result.positions[5, :2] > 0).all()
    np.testing.assert_array_equal(result.positions[5:], np.tile(result.positions[5], (15, 1)))
    assert set(result.fills.row.tolist()) == {4}
    assert result.turnover[4] > 0
    assert not result.turnover[[3, 5]].any()


@every_engine
def test_money_adds_up_at_every_bar(engine):
    rng = np.random.default_rng(3)
    weights = rng.dirichlet(np.ones(4), size=20)[:, :3]
    result = engine().run(request_for(engine), lambda account, _: Decision.of_weights(weights[account.bar[0]]))
    close = request_for(engine).market.close
    np.testing.assert_allclose(result.equity, result.cash + (result.positions * close).sum(axis=1), rtol=1e-12)
    assert (result.cash >= 0).all()
    fills = result.fills
    spent = np.zeros(19)
    np.add.at(spent, fills.row, fills.quantity * fills.price + fills.commission + fills.spread + fills.impact)
    np.testing.assert_allclose(np.diff(result.cash), -spent, atol=1e-6)
    np.testing.assert_allclose(
        result.cost, [(fills.commission + fills.spread)[fills.row == step].sum() for step in range(19)], atol=1e-9
    )
    np.testing.assert_array_equal(result.targets[:, 0], weights[:19])


@every_engine
def test_what_an_engine_cannot_play_is_refused(engine):
    can = engine.capabilities
    play = engine().run
    for fill in FILL_POLICIES:
        if fill not in can.fills:
            with pytest.raises(BookError, match=f"fill '{fill}'"):
                play(request_for(engine, fill=fill), lambda *_: None)
    for way in ("shares", "position"):
        if way not in can.trades:
            with pytest.raises(BookError, match=f"targets of {way}"):
                play(request_for(engine, trade=Trade(way)), lambda *_: None)
    if not can.margin:
        with pytest.raises(BookError, match="margin"):
            play(request_for(engine, margin=Margin()), lambda *_: None)
    if not can.impact:
        with pytest.raises(BookError, match="impact"):
            play(request_for(engine, costs=CostModel(impact=0.1)), lambda *_: None)
    if "at_fill" not in can.sizings:
        with pytest.raises(BookError, match="sizing at_fill"):
            play(request_for(engine, sizing=None), lambda *_: None)
    if not can.corporate_actions:
        market = market_of(random_panel(1, gaps=True, actions=True), fill_policy("next_open"), NUMPY)
        with pytest.raises(BookError, match="dividends, splits or ends"):
            play(BacktestRequest(market, sizing=SizingRules()), lambda *_: None)


@every_engine
def test_an_error_of_a_strategy_reaches_the_caller_and_frees_the_engine(engine):
    def broken(account, context):
        if account.bar[0] == 3:
            raise ValueError("no idea")

    with pytest.raises(ValueError, match="no idea"):
        engine().run(request_for(engine), broken)
    engine().run(request_for(engine), lambda *_: None)


def test_a_request_that_no_account_can_have_is_refused():
    market = request_for(NativeEngine).market
    with pytest.raises(BookError, match="from bar 5 to bar 5"):
        BacktestRequest(market, first=5, last=5)
    with pytest.raises(BookError, match="there are 20 bars"):
        BacktestRequest(market, last=20)
    with pytest.raises(BookError, match="cash 0"):
        BacktestRequest(market, cash=0)


def test_a_backtest_plays_the_bars_it_is_asked_for():
    result = NativeEngine().run(request_for(NativeEngine, first=5, last=9), agent=CountingBridge())
    assert result.timestamps.tolist() == request_for(NativeEngine).market.panel.timestamps[5:10].tolist()
    assert len(result.cost) == 4
    np.testing.assert_allclose(result.returns, np.diff(result.equity) / result.equity[:-1])


def test_a_session_keeps_the_account_it_was_given():
    request = request_for(NativeEngine)
    account = request.account()
    session = NativeEngine().open(request, account)
    assert isinstance(session, EngineSession)
    session.step(Decision.of_weights(np.full(3, 0.3)))
    assert account is session.account
    assert account.bar[0] == 1
    assert (account.positions > 0).all()


def test_the_noop_bridge_counts_and_forgets():
    agent = NoopRLAgentBridge()
    account = request_for(NativeEngine).account()
    assert asyncio.run(agent.consult_async(account)).decision is None
    assert agent.consult(account) is agent.last_decision
    assert agent.calls == 2
    agent.reset()
    assert (agent.calls, agent.last_decision) == (0, None)


@every_engine
@pytest.mark.parametrize(
    ("weights", "says"),
    [
        (np.array([0.1, np.nan, 0.2]), "target of asset 1"),
        (np.array([np.inf, 0.0, 0.2]), "target of asset 0"),
        (np.array([0.5, 0.5]), r"shape \(1, 2\)"),
        (np.array([0.5]), r"shape \(1, 1\)"),
    ],
    ids=["nan", "inf", "too few", "one"],
)
def test_a_decision_that_is_none_is_refused(engine, weights, says):
    with pytest.raises(OrderError, match=says):
        engine().run(request_for(engine), lambda *_: Decision.of_weights(weights))


def test_target_weights_are_put_in_the_order_of_the_assets():
    bar = np.datetime64("2020-01-02")
    decision = Decision.of_target(TargetWeights(("A2", "A0"), np.array([0.5, 0.2]), bar), ("A0", "A1", "A2"))
    np.testing.assert_array_equal(decision.targets, [[0.2, 0.0, 0.5]])
    with pytest.raises(OrderError, match="symbol 'A3'"):
        Decision.of_target(TargetWeights(("A3",), np.array([0.5]), bar), ("A0", "A1", "A2"))

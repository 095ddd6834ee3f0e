"""Backtrader's broker against ours: positions and cash of random weights to 1e-6, and what is its own."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest

from alphaswarm_rl.arrays.backend_numpy import NUMPY
from alphaswarm_rl.core.errors import MissingExtra
from alphaswarm_rl.execution.backtrader import BacktraderEngine
from alphaswarm_rl.execution.decision import Decision
from alphaswarm_rl.execution.engine import BacktestRequest
from alphaswarm_rl.execution.native import NativeEngine
from alphaswarm_rl.inference.builder import is_stateful
from alphaswarm_rl.market.costs import CostModel
from alphaswarm_rl.market.fills import fill_policy
from alphaswarm_rl.market.market import market_of
from alphaswarm_rl.market.panel import MarketPanel
from alphaswarm_rl.market.sizing import SizingRules
from tests.envs.panels import random_panel
from tests.execution.plays import environment

PATHS = 200
RULES = (
    SizingRules(),
    SizingRules(),
    SizingRules(rebalance_threshold=0.05),
    SizingRules(min_notional=2_000.0, max_order_notional=40_000.0),
)


def path(seed):
    """A market with a gap in trading, weights by bar, costs and rules."""
    rng = np.random.default_rng(seed)
    panel = random_panel(seed, bars=14, assets=3, gaps=False)
    weights = rng.dirichlet(np.ones(4), size=14)[:, :3]
    if seed % 2:  # all of the equity: what the open makes dearer must be cut
        weights /= weights.sum(axis=1, keepdims=True)
    if seed % 3 == 0:
        weights[rng.random(weights.shape) < 0.3] = 0.0
    costs = CostModel(
        commission_rate=float(rng.choice([0.0, 0.0005, 0.01])),
        commission_per_share=float(rng.choice([0.0, 0.01])),
        commission_minimum=float(rng.choice([0.0, 5.0])),
        half_spread_bps=float(rng.choice([0.0, 5.0])),
    )
    return panel, weights, {"costs": costs, "sizing": RULES[seed % len(RULES)]}


def both(panel, fill, weights, **rules):
    """The same weights on both engines."""
    request = BacktestRequest(market_of(panel, fill_policy(fill), NUMPY), **rules)

    def strategy(account, context):
        return Decision.of_weights(weights[account.bar[0]])

    return NativeEngine().run(request, strategy), BacktraderEngine().run(request, strategy)


@pytest.mark.parametrize("fill", ["next_open", "cheat_on_open"])
def test_positions_and_cash_of_random_weights_are_ours(fill):
    cut = 0
    for seed in range(PATHS):
        panel, weights, rules = path(seed)
        ours, theirs = both(panel, fill, weights, **rules)
        np.testing.assert_allclose(theirs.positions, ours.positions, atol=1e-6, err_msg=str(seed))
        np.testing.assert_allclose(theirs.cash, ours.cash, atol=1e-6, err_msg=str(seed))
        np.testing.assert_allclose(theirs.equity, ours.equity, atol=1e-6, err_msg=str(seed))
        np.testing.assert_allclose(theirs.cost, ours.cost, atol=1e-6, err_msg=str(seed))
        np.testing.assert_allclose(theirs.orders, ours.orders, atol=1e-6, err_msg=str(seed))
        ordered = [sorted(zip(each.fills.row, each.fills.asset, strict=True)) for each in (ours, theirs)]
        assert ordered[0] == ordered[1], seed
        cut += int((np.abs(ours.log["ordered"] - ours.orders) > 1e-3).any())
        assert ours.turnover.any()
    assert cut > PATHS // 10  # what the open made too dear was there to be compared


def test_an_asset_that_does_not_trade_at_the_open_stays():
    panel, weights, rules = path(2)
    stands = np.ones(panel.close.shape, bool)
    stands[5, 1] = stands[6, 0] = stands[6, 1] = False
    arrays = {
        name: np.where(stands, getattr(panel, name), np.nan) for name in ("open", "high", "low", "close", "volume")
    }
    gappy = MarketPanel.from_arrays({"timestamps": panel.timestamps, "assets": list(panel.assets), **arrays})
    assert not gappy.tradable[5, 1]
    ours, theirs = both(gappy, "next_open", weights, **rules)
    np.testing.assert_allclose(theirs.positions, ours.positions, atol=1e-6)
    np.testing.assert_allclose(theirs.cash, ours.cash, atol=1e-6)
    assert ours.positions[5, 1] == ours.positions[4, 1] > 0


def test_an_environment_on_it_plays_episode_after_episode_and_has_no_state():
    panel = random_panel(3, bars=14, assets=3, gaps=False)
    env = environment("rl_backtest", panel, num_envs=2, sizing="at_decision", engine="backtrader")
    twin = environment("rl_backtest", panel, num_envs=2, sizing="at_decision")
    rng = np.random.default_rng(0)
    env.reset(seed=1)
    twin.reset(seed=1)
    ends = 0
    for _ in range(40):
        actions = rng.uniform(0.0, 0.3, env.action_space.shape).astype(np.float32)
        theirs, ours = env.step(actions), twin.step(actions)
        np.testing.assert_allclose(theirs[4]["portfolio_value"], ours[4]["portfolio_value"], atol=1e-6)
        np.testing.assert_array_equal(theirs[3], ours[3])
        ends += int(theirs[3].sum())
    assert ends == 6  # three episodes of each
    assert is_stateful(twin)
    assert not is_stateful(env)
    before = threading.active_count()
    env.close()
    assert threading.active_count() == before - 2


def test_its_threads_end_with_their_sessions():
    panel, weights, rules = path(0)
    before = threading.active_count()
    both(panel, "next_open", weights, **rules)
    assert threading.active_count() == before


def test_without_the_extra_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "backtrader", None)
    panel, weights, rules = path(0)
    with pytest.raises(MissingExtra, match=r"alphaswarm-rl\[backtest\]"):
        both(panel, "next_open", weights, **rules)


def test_nothing_else_imports_it():
    import subprocess

    code = (
        "import sys; from alphaswarm_rl.core import catalogue; catalogue.discover();"
        "import alphaswarm_rl.operations.backtest; print('backtrader' in sys.modules)"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False"

"""The environment's money is the Book's, whatever is traded, filled and charged."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphaswarm_rl import make_env
from alphaswarm_rl.market.book import Book
from alphaswarm_rl.market.costs import CostModel
from alphaswarm_rl.market.fills import FILL_POLICIES, fill_prices
from alphaswarm_rl.market.margin import CASH_ACCOUNT, Margin
from alphaswarm_rl.market.quotes import Quotes
from tests.envs.panels import random_panel

COSTS = (
    {},
    {"commission_rate": 0.0, "half_spread_bps": 0.0},
    {"commission_rate": 0.002, "sell_commission_rate": 0.001, "commission_minimum": 5.0, "impact": 0.1},
    {"commission_per_share": 0.02, "half_spread_bps": 10.0, "borrow_rate": 0.1},
)
ACTIONS = {
    "whole": {"class": "integer_shares", "kwargs": {"hmax": 60}},
    "fractional": {"class": "integer_shares", "kwargs": {"hmax": 60, "whole": False}},
    "weights": {"class": "continuous_weights"},
}
MARGIN = {"initial": 0.5, "maintenance": 0.25, "short": True}


class Reference:
    """One account on the plain Book, moved bar by bar by the rules that the docs state."""

    def __init__(self, panel, *, fill, costs, margin, start, cash=10_000.0):
        self.panel, self.fill, self.bar = panel, FILL_POLICIES[fill], start
        self.book = Book(
            cash,
            [0.0] * panel.num_assets,
            CostModel(**costs),
            Margin(**margin) if margin else CASH_ACCOUNT,
            panel.periods_per_year,
        )
        self.closes = np.nan_to_num(panel.close)
        self.fills = np.nan_to_num(fill_prices(self.fill, panel.open, panel.close))

    def quotes(self, prices, bar, closing=False):
        tradable = self.panel.tradable[bar].copy()
        if not closing and not self.fill.lag:
            tradable[self.ended(bar)] = False  # its last close is where it is closed
        return Quotes(prices[bar].tolist(), tradable.tolist(), self.panel.volume[bar].tolist())

    def ended(self, bar):
        return [asset for asset, last in enumerate(self.panel.last_bar) if last == bar < self.panel.num_bars - 1]

    def trade(self, way, target):
        if way in ("whole", "fractional") and self.fill.lag and self.panel.splits is not None:
            target = (np.asarray(target) * self.panel.splits[self.bar]).tolist()
        quotes = self.quotes(self.fills, self.bar)
        if way == "weights":
            self.book.trade_to_weights(target, quotes)
        elif way == "position":
            if not np.isnan(target):
                self.book.trade_to_position(0, target, quotes, fraction=0.9)
        else:
            self.book.trade_shares(target, quotes, whole=way == "whole")

    def step(self, way, target):
        if not self.fill.lag:
            self.trade(way, target)
        self.bar += 1
        panel, bar = self.panel, self.bar
        if panel.dividends is not None:
            self.book.adjust(panel.dividends[bar].tolist(), panel.splits[bar].tolist())
        if self.fill.lag:
            self.trade(way, target)
        quotes, marks = self.quotes(self.closes, bar, closing=True), self.closes[bar].tolist()
        self.book.close(self.ended(bar), quotes, "the asset ends")
        self.book.accrue(marks)
        if self.book.called(marks):
            self.book.liquidate(quotes)
        return self.book.equity(marks)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    fill=st.sampled_from(sorted(FILL_POLICIES)),
    costs=st.sampled_from(COSTS),
    margin=st.sampled_from([None, MARGIN]),
    way=st.sampled_from(sorted(ACTIONS)),
    actions=st.booleans(),
)
def test_the_environment_is_the_book(seed, fill, costs, margin, way, actions):
    panel = random_panel(seed, actions=actions)
    margin = margin if way == "weights" else None
    env = make_env(
        "stock_trading",
        panel=panel,
        num_envs=2,
        phase="evaluate",
        fill=fill,
        costs=costs,
        margin=margin,
        initial_cash=10_000.0,
        action={"class": "continuous_weights", "kwargs": {"short": True}}
        if way == "weights" and margin
        else ACTIONS[way],
        observation={"class": "portfolio_state"},
    )
    env.reset()
    reference = Reference(panel, fill=fill, costs=costs, margin=margin, start=env.plan.first_bar)
    rng = np.random.default_rng(seed)
    for _ in range(env.plan.length):
        action = rng.uniform(-1.0, 1.0, (2, panel.num_assets)).astype(np.float32)
        env.plan.action.step(_with_action(env, action), {}, target := np.empty((2, panel.num_assets)))
        expected = reference.step(way, target[1].tolist())
        observation, rewards, terminated, truncated, infos = env.step(action)
        assert infos["portfolio_value"][1] == pytest.approx(expected, rel=1e-9)
        assert infos["cash"][1] == pytest.approx(reference.book.cash, rel=1e-9, abs=1e-6)
        assert np.isfinite(observation).all()
        assert np.isfinite(rewards).all()
        if margin is None:
            assert (infos["cash"] >= 0).all()
        if terminated[1] or truncated[1]:
            break
        np.testing.assert_allclose(env.view.positions[1], reference.book.positions, rtol=1e-9, atol=1e-9)
        held = (env.view.positions * env.view.close).sum(axis=-1)
        np.testing.assert_allclose(env.view.cash + held, env.view.value, rtol=1e-9)
        if way == "whole" and not actions:
            assert (env.view.positions == np.floor(env.view.positions)).all()


@settings(max_examples=30)
@given(
    seed=st.integers(0, 10_000),
    fill=st.sampled_from(sorted(FILL_POLICIES)),
    costs=st.sampled_from(COSTS),
    margin=st.sampled_from([None, MARGIN]),
    actions=st.booleans(),
)
def test_positions_are_the_books(seed, fill, costs, margin, actions):
    panel = random_panel(seed, actions=actions)
    env = make_env(
        "stock_trading",
        panel=panel,
        phase="evaluate",
        fill=fill,
        costs=costs,
        margin=margin,
        initial_cash=10_000.0,
        action={
            "class": "discrete_buy_sell_hold",
            "kwargs": {"asset": "A0", "fraction": 0.9, "short": margin is not None},
        },
        observation={"class": "portfolio_state"},
    )
    env.reset()
    reference = Reference(panel, fill=fill, costs=costs, margin=margin, start=env.plan.first_bar)
    rng = np.random.default_rng(seed)
    for _ in range(env.plan.length):
        action = rng.integers(0, 3, 1)
        env.plan.action.step(_with_action(env, action), {}, target := np.empty(1))
        expected = reference.step("position", target[0])
        _, _, terminated, truncated, infos = env.step(action)
        assert infos["portfolio_value"][0] == pytest.approx(expected, rel=1e-9)
        if terminated[0] or truncated[0]:
            break
        np.testing.assert_allclose(env.view.positions[0], reference.book.positions, rtol=1e-9, atol=1e-9)


def _with_action(env, action):
    env.view.action = action
    return env.view


@settings(max_examples=20)
@given(seed=st.integers(0, 10_000), fill=st.sampled_from(sorted(FILL_POLICIES)), way=st.sampled_from(sorted(ACTIONS)))
def test_a_panel_cut_in_two_is_the_whole(seed, fill, way):
    panel = random_panel(seed, bars=40, actions=True)
    middle = 20
    parts = {"fill": fill, "action": ACTIONS[way], "observation": {"class": "portfolio_state"}, "phase": "evaluate"}
    whole = make_env("stock_trading", panel=panel, **parts)
    first = make_env("stock_trading", panel=panel.window(None, panel.timestamps[middle + 1]), **parts)
    # The second part trades on from the bar on which the first one ended.
    second = make_env("stock_trading", panel=panel.window(panel.timestamps[middle], None), **parts)
    rng = np.random.default_rng(seed)
    moves = rng.uniform(-1.0, 1.0, (39, 1, panel.num_assets)).astype(np.float32)
    for env in (whole, first, second):
        env.reset()
    values, pieces = [], []
    for step, move in enumerate(moves):
        if step == middle:
            for name in ("cash", "positions", "value"):
                getattr(second.view, name)[:] = getattr(whole.view, name)
        values.append(whole.step(move)[4]["portfolio_value"][0])
        pieces.append((first if step < middle else second).step(move)[4]["portfolio_value"][0])
    assert pieces == values

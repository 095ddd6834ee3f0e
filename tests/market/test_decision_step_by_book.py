"""The decision step does to n accounts what the scalar Book does to each: worked examples, then random markets."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
from gymnasium.spaces import Box

from alphaswarm_rl import build_from_config
from alphaswarm_rl.arrays.backend_numpy import NUMPY
from alphaswarm_rl.arrays.backend_torch import TorchBackend, float64_by_default
from alphaswarm_rl.core.contracts import Trade
from alphaswarm_rl.core.kinds import ActionSpec
from alphaswarm_rl.core.view import View
from alphaswarm_rl.market import decision_step_torch, kernels_torch
from alphaswarm_rl.market.book import Book
from alphaswarm_rl.market.costs import CostModel
from alphaswarm_rl.market.decider import Decider
from alphaswarm_rl.market.decision_step_numpy import NumpyDecisionStep
from alphaswarm_rl.market.decision_step_torch import TorchDecisionStep
from alphaswarm_rl.market.fills import fill_policy
from alphaswarm_rl.market.margin import CASH_ACCOUNT, Margin
from alphaswarm_rl.market.market import market_of
from alphaswarm_rl.market.panel import MarketPanel
from alphaswarm_rl.market.sizing import SHORTFALLS, SizingRules
from tests.envs.panels import random_panel
from tests.market.book_replay import BookReplay

BACKENDS = ("numpy", "torch")
#: One percent of everything traded, and nothing else: costs that can be worked out by hand.
ONE_PERCENT = CostModel(commission_rate=0.01, half_spread_bps=0.0, borrow_rate=0.0)
COSTLY = CostModel(commission_rate=0.001, half_spread_bps=5.0, impact=0.1, borrow_rate=0.05)
START = 1000.0
#: As a number of an action: leave the position as it is.
STAY = 2.0


class Scripted(ActionSpec):
    """Targets are the action's numbers; brackets close at given prices by bar.

    A position that was entered at the bar's close is not closed in that bar any more.
    """

    def __init__(self, trade, exit_prices):
        self._trade, self._exit_prices = trade, exit_prices

    def prepare(self, panel):
        return {"exit_prices": self._exit_prices}

    def space(self, panel):
        return Box(-np.inf, np.inf, () if self._trade.way == "position" else (panel.num_assets,), np.float64)

    def trade(self, panel):
        return self._trade

    def step(self, view, state, out):
        leave = (view.action == STAY) & (self._trade.way == "position")
        out[...] = view.xp.where(leave, view.xp.nan, view.action)

    def exits(self, view, state):
        price = state["exit_prices"][view.bar]
        at_close = view.market.fill.name == "next_close"
        return view.xp.where((view.traded[:, self._trade.asset] != 0) & at_close, view.xp.nan, price)


class Accounts:
    """n accounts that begin at these bars, moved on by the decision step of a backend."""

    def __init__(
        self, backend, panel, action, fill, costs, margin=CASH_ACCOUNT, starts=(0,), threshold=None, sizing=None
    ):
        self.torch = backend == "torch"
        self.arrays = TorchBackend("cpu") if self.torch else NUMPY
        with self._mode():
            market = market_of(panel, fill_policy(fill), self.arrays)
            self.view = view = View(market, START, len(starts))
            for money in (view.cash, view.value, view.value_before, view.peak):
                money[:] = START
            view.bar[:] = self.arrays.put(np.array(starts))
            view.average_cost = view.xp.zeros((len(starts), panel.num_assets), dtype=view.xp.float64)
            self.decider = Decider(action, (), market, len(starts), turbulence_threshold=threshold)
            self.moves = (
                TorchDecisionStep(market, self.decider, costs, margin, sizing)
                if self.torch
                else NumpyDecisionStep(view, self.decider, costs, margin, sizing)
            )

    def _mode(self):
        return float64_by_default() if self.torch else nullcontext()

    def step(self, actions):
        with self._mode():
            actions = self.arrays.put(np.asarray(actions))
            if self.torch:
                self.moves.step(self.view, self.decider, actions)
            else:
                self.moves.step(actions)

    def number(self, name):
        """What the view holds of the only account."""
        return np.asarray(getattr(self.view, name))[0].tolist()


def panel_of(close, **columns):
    """Assets A, B, ... with these columns by bar; opens are the closes where none are given."""
    close = np.array(close, float)
    shown = {"open": close, **{name: np.array(column, float) for name, column in columns.items()}}
    days = np.datetime64("2024-01-01") + np.arange(len(close))
    names = [chr(ord("A") + index) for index in range(close.shape[1])]
    return MarketPanel.from_arrays({"timestamps": days, "assets": names, "close": close, **shown})


@pytest.mark.parametrize("backend", BACKENDS)
def test_where_orders_fill_at_closes_a_bracket_closes_first_and_the_fill_turns_the_account_round(backend):
    """Long 5 at 100; the stop at 95 closes them inside the bar, and at its close of 97 the account goes short."""
    bars = [[100, 100, 100, 100], [100, 120, 80, 100], [99, 99, 94, 97], [97, 97, 97, 97]]
    first, high, low, close = (np.array(bars, float).T)[..., None]
    panel = panel_of(close, open=first, high=high, low=low)
    levels = {"stop_losses": [0.05], "take_profits": [0.1], "fraction": 0.5, "short": True}
    action = build_from_config({"class": "bracket", "kwargs": levels}, kind="action")
    hold, long, short = 0, 2, 3
    accounts = Accounts(backend, panel, action, "next_close", ONE_PERCENT, Margin())

    accounts.step([long])  # half of the equity V after costs: V + 0.01 * 0.5 V = 1000
    equity = 1000 / 1.005
    units = 0.5 * equity / 100
    assert accounts.number("positions") == pytest.approx([units])  # the low of 80 was before the fill
    assert accounts.number("value") == pytest.approx(equity)
    assert accounts.number("turnover") == pytest.approx(units * 100 / 1000)

    accounts.step([short])
    cash = equity - units * 100 + units * 95 * 0.99  # closed at the stop, less one percent
    after = cash / 1.005
    sold = 0.5 * after / 97
    assert accounts.number("positions") == pytest.approx([-sold])
    assert accounts.number("value") == pytest.approx(after)
    assert accounts.number("traded") == pytest.approx([-units - sold])
    assert accounts.number("cost") == pytest.approx(0.01 * (units * 95 + sold * 97))
    assert accounts.number("turnover") == pytest.approx(units * 95 / equity + sold * 97 / cash)

    accounts.step([hold])  # nothing is traded, and nothing of the bar before is counted again
    assert accounts.number("positions") == pytest.approx([-sold])
    assert (accounts.number("cost"), accounts.number("turnover"), accounts.number("traded")) == (0.0, 0.0, [0.0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_asset_that_ends_is_closed_at_its_last_close_after_the_fill_of_that_bar(backend):
    """Four of A and three of B; in B's last bar one more B is bought at the open, then all four go at the close."""
    nan = np.nan
    panel = panel_of([[10, 20], [10, 20], [11, 30], [12, nan]], open=[[10, 20], [10, 20], [11, 25], [12, nan]])
    accounts = Accounts(backend, panel, Scripted(Trade("shares"), np.full(4, nan)), "next_open", ONE_PERCENT)

    accounts.step([[4.0, 3.0]])
    assert accounts.number("cash") == pytest.approx(1000 - 1.01 * (4 * 10 + 3 * 20))
    assert accounts.number("value") == pytest.approx(999)

    accounts.step([[0.0, 1.0]])
    assert accounts.number("positions") == [4.0, 0.0]
    assert accounts.number("cash") == pytest.approx(899 - 1.01 * 25 + 0.99 * 4 * 30)
    assert accounts.number("value") == pytest.approx(899 - 1.01 * 25 + 0.99 * 4 * 30 + 4 * 11)
    assert accounts.number("traded") == [0.0, -3.0]
    assert accounts.number("cost") == pytest.approx(0.01 * (25 + 4 * 30))
    opening = 899 + 4 * 11 + 3 * 25
    assert accounts.number("turnover") == pytest.approx(25 / opening + 4 * 30 / 999)

    accounts.step([[0.0, 5.0]])  # nobody can trade it any more
    assert accounts.number("positions") == [4.0, 0.0]
    assert accounts.number("turnover") == 0.0


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("column", "number", "cash", "held"),
    [("dividends", 0.5, 1000 - 1.01 * 40 + 4 * 0.5, 4.0), ("splits", 2.0, 1000 - 1.01 * 40, 8.0)],
)
def test_either_corporate_action_comes_alone(column, number, cash, held, backend):
    """Four units at 10; in the next bar they get half a dividend each, or become eight."""
    nothing = 1.0 if column == "splits" else 0.0
    panel = panel_of(np.full((4, 1), 10.0), **{column: [[nothing], [nothing], [number], [nothing]]})
    accounts = Accounts(backend, panel, Scripted(Trade("shares"), np.full(4, np.nan)), "next_close", ONE_PERCENT)
    accounts.step([[4.0]])
    accounts.step([[0.0]])
    assert accounts.number("cash") == pytest.approx(cash)
    assert accounts.number("positions") == [held]


class TraderThatMarksAtOnce(kernels_torch.TorchTrader):
    """What the GPU's trader does: it marks with the fill where it is given marks."""

    def trade_shares(self, cash, positions, orders, rows, marks, *, whole):
        done, _ = super().trade_shares(cash, positions, orders, rows, marks, whole=whole)
        return done, None if marks is None else self.mark(done.cash, done.positions, rows.time, marks)


@pytest.mark.parametrize("ends", [False, True])
def test_a_trader_that_can_fill_and_mark_at_once_does_so_only_where_no_asset_ends_in_between(ends, monkeypatch):
    closes = [[10.0, 20.0], [10.0, 20.0], [11.0, 30.0], [12.0, np.nan if ends else 31.0]]
    panel, action = panel_of(closes), Scripted(Trade("shares"), np.full(4, np.nan))

    def moved():
        accounts = Accounts("torch", panel, action, "next_open", ONE_PERCENT, Margin(0.5, 0.25))
        for orders in ([90.0, 3.0], [0.0, 1.0]):
            accounts.step([orders])
        return {name: accounts.number(name) for name in ("cash", "positions", "value", "carry", "called")}

    one_after_the_other = moved()
    monkeypatch.setattr(
        decision_step_torch, "_trader", lambda rates, margin, device: TraderThatMarksAtOnce(rates, margin)
    )
    assert moved() == one_after_the_other


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_gate_closes_at_the_threshold_itself_and_not_below_it(backend):
    threshold = 50.0
    turbulence = [0.0, 49.5, threshold, 0.0, 0.0]
    panel = panel_of(np.full((5, 1), 10.0)).with_market_features({"turbulence": np.array(turbulence)})
    action = Scripted(Trade("shares"), np.full(5, np.nan))
    accounts = Accounts(backend, panel, action, "next_close", ONE_PERCENT, threshold=threshold)
    held = []
    for _ in range(4):
        accounts.step([[2.0]])
        held.append(accounts.number("positions")[0])
    assert held == [2.0, 4.0, 0.0, 2.0]  # the third decision sees the threshold and sells what is held


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_order_that_was_sized_before_a_split_is_filled_as_many_units_more(backend):
    """Half of 1000 at 10 are 50 units; over a split of 2 they are 100 at 6, which 1000 pay for."""
    closes, opens = [[10.0], [6.0], [6.0]], [[10.0], [6.0], [6.0]]
    panel = panel_of(closes, open=opens, splits=[[1.0], [2.0], [1.0]])
    action = Scripted(Trade("weights"), np.full(3, np.nan))
    accounts = Accounts(backend, panel, action, "next_open", ONE_PERCENT, sizing=SizingRules(lot=1.0))
    accounts.step([[0.5]])
    assert accounts.number("positions") == [100.0]
    assert accounts.number("cash") == pytest.approx(1000 - 600 * 1.01)
    assert accounts.number("traded") == [100.0]
    accounts.step([[0.0]])
    assert accounts.number("positions") == [0.0]


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_the_fills_price_makes_too_dear_is_cut_to_the_cash(backend):
    """All of 1000 at 10 are 99 units with their costs; at 12 the cash pays for 82."""
    panel = panel_of([[10.0], [12.0], [12.0]], open=[[10.0], [12.0], [12.0]])
    action = Scripted(Trade("weights"), np.full(3, np.nan))
    accounts = Accounts(backend, panel, action, "next_open", ONE_PERCENT, sizing=SizingRules(lot=1.0))
    accounts.step([[1.0]])
    assert accounts.number("positions") == [82.0]
    if backend == "numpy":
        assert accounts.moves.sized.orders.tolist() == [[99.0]]
        assert accounts.moves.sized.reasons.tolist() == [[SHORTFALLS.index("buying_power")]]


WAYS = {
    "whole shares": Trade("shares"),
    "fractional shares": Trade("shares", whole=False),
    "weights": Trade("weights"),
    "sized weights": Trade("weights"),
    "sized lots": Trade("weights"),
    "fraction": Trade("position", asset=2, size=0.7),
    "units": Trade("position", asset=2, size=9.0, by_units=True),
    "bracket": Trade("position", asset=2, size=0.7, bracket=True),
}


#: Ways in which weights become orders when a decision is made.
SIZED = {
    "sized weights": SizingRules(rebalance_threshold=0.03),
    "sized lots": SizingRules(lot=1.0, min_notional=60.0, max_order_notional=400.0),
}


def actions_for(trade, rng, n, assets):
    if trade.way == "shares":
        return rng.choice([-30.0, -3.5, 0.0, 1.0, 4.2, 9.0], (n, assets))
    if trade.way == "weights":
        return rng.normal(0.0, 1.0, (n, assets))
    return rng.choice([-1.0, 0.0, 1.0, STAY], n)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("margin", [CASH_ACCOUNT, Margin(0.5, 0.48)], ids=["cash", "margin"])
@pytest.mark.parametrize("fill", ["next_open", "next_close", "same_close"])
@pytest.mark.parametrize("way", WAYS)
def test_every_account_is_moved_as_a_book_is(way, fill, margin, backend):
    trade, rng, starts = WAYS[way], np.random.default_rng(4), (0, 2, 3)
    panel = random_panel(11, bars=16, assets=3, actions=True)
    some_bars = rng.random(panel.num_bars) < 0.4
    exit_prices = np.where(some_bars & trade.bracket & panel.tradable[:, trade.asset], 49.0, np.nan)
    sizing = SIZED.get(way)
    accounts = Accounts(backend, panel, Scripted(trade, exit_prices), fill, COSTLY, margin, starts, sizing=sizing)
    year = panel.periods_per_year
    books = [Book(START, [0.0] * panel.num_assets, COSTLY, margin, year) for _ in starts]
    of_all = (panel, fill_policy(fill), trade)
    replays = [BookReplay(*of_all, book, bar, sizing) for book, bar in zip(books, starts, strict=True)]
    for _ in range(12):
        actions = actions_for(trade, rng, len(starts), panel.num_assets)
        accounts.step(actions)
        targets = np.where(actions == STAY, np.nan, actions) if trade.way == "position" else actions
        steps = [
            replay.step(target, exit_prices[replay.bar + 1]) for replay, target in zip(replays, targets, strict=True)
        ]
        expected = {
            "cash": [book.cash for book in books],
            "positions": [book.positions for book in books],
            **{name: [getattr(replay, name) for replay in replays] for name in ("bar", "value", "peak")},
            **{name: [getattr(step, name) for step in steps] for name in ("cost", "turnover", "carry", "called")},
            "traded": [step.traded for step in steps],
        }
        if trade.way != "position":
            expected["average_cost"] = [replay.average_cost for replay in replays]
        for name, numbers in expected.items():
            shown = np.asarray(getattr(accounts.view, name))
            np.testing.assert_allclose(shown, np.array(numbers), rtol=1e-9, atol=1e-7, err_msg=name)
        if backend == "numpy":
            assert accounts.moves.closed.keys() == {reason for step in steps for reason in step.closed}
            for reason, units in accounts.moves.closed.items():
                nothing = np.zeros(panel.num_assets)
                np.testing.assert_allclose(units, [step.closed.get(reason, nothing) for step in steps], atol=1e-7)

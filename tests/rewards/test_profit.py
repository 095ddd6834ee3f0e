"""Terms that are about money earned."""

import math

import numpy as np
import pytest

from alphaswarm_rl.envs.making import make_env
from alphaswarm_rl.rewards.cash_penalty import CashPenalty
from alphaswarm_rl.rewards.exp_utility import ExpUtility
from alphaswarm_rl.rewards.hindsight import Hindsight
from alphaswarm_rl.rewards.log_return import LogReturn
from alphaswarm_rl.rewards.pnl import PnL
from alphaswarm_rl.rewards.portfolio_return import PortfolioReturn
from alphaswarm_rl.rewards.running_inventory import RunningInventory
from alphaswarm_rl.rewards.stop_loss import StopLoss
from tests.rewards.episodes import Episode, made, panel_of


def test_pnl_is_the_scaled_change_of_value():
    assert Episode(made(PnL, scale=0.5)).values(110.0, 104.0) == [5.0, -3.0]


def test_portfolio_return_is_relative_and_0_without_equity():
    assert Episode(PortfolioReturn()).values(110.0, 0.0, 5.0) == pytest.approx([0.1, -1.0, 0.0])


def test_log_returns_sum_to_the_log_of_the_growth():
    assert sum(Episode(LogReturn()).values(110.0, 90.0, 250.0)) == pytest.approx(math.log(2.5), abs=1e-15)


def test_a_lost_account_has_the_floor_as_log_return_and_then_0():
    assert Episode(made(LogReturn, floor=1e-3)).values(-20.0, -30.0) == pytest.approx([math.log(1e-3), 0.0])


@pytest.mark.parametrize("gamma", [2.0, 0.1, -1.5])
def test_utility_of_a_step_is_that_of_its_return(gamma):
    expected = [(1 - math.exp(-gamma * r)) / gamma for r in (0.1, -0.2)]
    assert Episode(made(ExpUtility, gamma=gamma)).returns(0.1, -0.2) == pytest.approx(expected, abs=1e-15)


def test_utility_of_nothing_is_0():
    assert Episode(ExpUtility()).returns(0.0) == [0.0]


@pytest.mark.parametrize("gamma", [0.0, 1e-13])
@pytest.mark.parametrize("mode", ["step", "telescoping"])
def test_without_risk_aversion_utility_is_the_return(gamma, mode):
    assert Episode(made(ExpUtility, gamma=gamma, mode=mode)).values(107.0) == pytest.approx([0.07], abs=1e-15)


@pytest.mark.parametrize("gamma", [3.0, -2.0])
def test_telescoping_utility_sums_to_that_of_the_last_wealth(gamma):
    rewards = Episode(made(ExpUtility, gamma=gamma, mode="telescoping")).values(110.0, 70.0, 95.0, 130.0)
    expected = (math.exp(-gamma) - math.exp(-gamma * 1.3)) / gamma
    assert sum(rewards) == pytest.approx(expected, abs=1e-13)


def test_utility_is_finite_where_the_exponential_is_not():
    rewards = Episode(made(ExpUtility, gamma=5000.0)).returns(-0.9, 0.9)
    assert np.isfinite(rewards).all()
    assert rewards[0] < rewards[1] == pytest.approx(1 / 5000.0)


def test_hindsight_adds_what_the_position_earns_within_the_horizon():
    panel = panel_of([10.0, 11.0, 13.0, 12.0])
    episode = Episode(made(Hindsight, weight=0.5, horizon=2, scale=1.0), panel)
    # 3 units, +1 now, and 13 - 10 two bars from the decision.
    assert episode.step(positions=[[3.0]], value=103.0) == pytest.approx(3.0 + 0.5 * 9.0)
    # +2 now, and 12 - 11.
    assert episode.step(value=109.0) == pytest.approx(6.0 + 0.5 * 3.0)
    # At the tail the last bar's price stands: 12 - 13.
    assert episode.step(value=106.0) == pytest.approx(-3.0 - 0.5 * 3.0)


def test_hindsight_without_weight_is_profit():
    walk = (110.0, 90.0, 95.0)
    panel = panel_of([10.0, 11.0, 13.0, 12.0])
    hindsight = Episode(made(Hindsight, weight=0.0), panel)
    hindsight.view.positions[...] = 4.0
    assert hindsight.values(*walk) == Episode(PnL(), panel).values(*walk)


def test_hindsight_sees_through_splits():
    panel = panel_of([10.0, 5.0, 6.0], splits=[1.0, 2.0, 1.0])
    episode = Episode(made(Hindsight, weight=1.0, horizon=2, scale=1.0), panel)
    # A unit of 10 became two of 5, which are worth 6 each at the horizon: 1 more per unit held now.
    assert episode.step(positions=[[8.0]], value=100.0) == pytest.approx(8.0)


def test_hindsight_is_left_out_of_evaluations():
    panel = panel_of(10.0 + np.arange(10.0))
    reward = {"class": "hindsight"}
    env = make_env("stock_trading", panel=panel, reward=reward, fill="next_close", phase="evaluate")
    env.reset()
    terms = env.step(np.ones((1, 1), np.float32))[4]["reward_terms"]
    assert list(terms) == ["portfolio_return"]


def test_running_inventory_is_profit_less_squared_inventory():
    panel = panel_of([10.0, 12.0, 11.0])
    episode = Episode(made(RunningInventory, phi=0.1, alpha=0.5, dt=2.0), panel)
    # q (S' - S) - phi q^2 dt = 3 * 2 - 0.1 * 9 * 2
    assert episode.step(positions=[[3.0]], value=106.0) == pytest.approx(6.0 - 1.8)
    # -2 * -1 - 0.1 * 4 * 2, and alpha q^2 at the end
    assert episode.step(positions=[[-2.0]], value=108.0, truncated=True) == pytest.approx(2.0 - 0.8 - 2.0)


@pytest.mark.parametrize("end", ["terminated", "truncated"])
def test_running_inventory_charges_the_end_whatever_it_is(end):
    episode = Episode(made(RunningInventory, phi=0.0, alpha=1.0, include_pnl=False))
    assert episode.step(positions=[[2.0]], value=50.0) == 0.0
    assert episode.step(value=70.0, **{end: True}) == -4.0


def test_cash_penalty_is_the_return_per_step_less_missing_cash():
    episode = Episode(CashPenalty())
    # Half in cash: nothing is missing.
    assert episode.step(value=110.0, cash=55.0) == pytest.approx(0.1)
    # 12 of 120 should be cash and 2 are: (120 - 10) / 100 - 1 over two steps.
    assert episode.step(value=120.0, cash=2.0) == pytest.approx(0.05)


def sale(price, units, *, average=10.0, held=10.0):
    """The second step of an episode in which `held` units were bought for `average` and some are sold, value 100."""
    episode = Episode(made(StopLoss, cash_fraction=0.0), panel_of([average, price, price]))
    episode.step(traded=[[held]], positions=[[held]], average_cost=[[average]], value=100.0)
    left = held - units
    return episode.step(traded=[[-units]], positions=[[left]], average_cost=[[average if left > 0 else 0.0]])


def test_stop_loss_without_trades_is_the_return_per_step():
    assert Episode(StopLoss()).values(110.0, 120.0) == pytest.approx([0.1, 0.1])


def test_stop_loss_charges_what_is_held_below_the_stop():
    # 10 units held, stop at 9, price 8: 10 of 100, over two steps.
    assert sale(8.0, 0.0) == pytest.approx(-0.10 / 2)
    assert sale(9.5, 0.0) == 0.0


def test_stop_loss_charges_a_profit_taken_too_soon_even_when_all_is_sold():
    # m = 1 + 2 * 0.1: 12 was wanted and 11 taken, for 10 units or for 4.
    assert sale(11.0, 10.0) == pytest.approx(-0.10 / 2)
    assert sale(11.0, 4.0) == pytest.approx(-0.04 / 2)


def test_stop_loss_pays_a_bonus_for_the_units_sold_at_a_good_profit():
    assert sale(13.0, 4.0) == pytest.approx(0.04 / 2)
    assert sale(13.0, 0.0) == 0.0


def test_stop_loss_has_no_profit_term_for_a_sale_at_a_loss():
    assert sale(9.5, 10.0) == 0.0


def test_stop_loss_counts_no_units_beyond_the_holding():
    episode = Episode(made(StopLoss, cash_fraction=0.0), panel_of([10.0, 13.0, 13.0, 13.0]))
    episode.step(traded=[[4.0]], positions=[[4.0]], average_cost=[[10.0]])
    assert episode.step(traded=[[-9.0]], positions=[[-5.0]], average_cost=[[0.0]]) == pytest.approx(0.04 / 2)
    assert episode.step(positions=[[-5.0]]) == 0.0


def test_stop_loss_charges_missing_cash():
    assert Episode(StopLoss()).step(value=100.0, cash=4.0) == pytest.approx(-0.06)


@pytest.mark.parametrize(("fill", "price", "units"), [("next_close", 6.5, 8.0), ("same_close", 13.0, 4.0)])
def test_stop_loss_sees_through_splits(fill, price, units):
    prices = {"next_close": [10.0, 10.0, price], "same_close": [10.0, price, price / 2]}[fill]
    panel = panel_of(prices, splits=[1.0, 1.0, 2.0])
    episode = Episode(made(StopLoss, cash_fraction=0.0), panel, fill=fill)
    episode.step(traded=[[10.0]], positions=[[10.0]], average_cost=[[10.0]])
    # Four old shares are sold for 13 each, in old ones or in new ones, and 12 was wanted.
    reward = episode.step(traded=[[-units]], positions=[[12.0]], average_cost=[[5.0]])
    assert reward == pytest.approx(0.04 / 2)


def test_stop_loss_forgets_the_last_episode():
    episode = Episode(made(StopLoss, cash_fraction=0.0), panel_of([10.0, 5.0, 5.0, 5.0]))
    episode.step(traded=[[10.0]], positions=[[10.0]], average_cost=[[10.0]])
    assert episode.begin(1).step() == 0.0


def test_stop_loss_in_an_environment_weighs_the_average_by_shares():
    # 100 shares at 10, then 50 at 13: the average is 11, not 11.5. All are sold at 20, where 13.2 was wanted.
    panel = panel_of([10.0, 10.0, 13.0, 20.0, 20.0])
    env = make_env(
        "stock_trading",
        panel=panel,
        reward={"class": "stop_loss", "kwargs": {"cash_fraction": 0.0}},
        action={"class": "integer_shares", "kwargs": {"hmax": 150}},
        fill="next_close",
        costs={"commission_rate": 0.0, "half_spread_bps": 0.0},
        initial_cash=10_000.0,
        episode_bars=None,
    )
    env.reset()
    for action in (100 / 150, 50 / 150):
        env.step(np.array([[action]], np.float32))
    _, reward, *_, info = env.step(np.array([[-1.0]], np.float32))
    gained = 100 * 10.0 + 50 * 7.0
    assert info["portfolio_value"][0] == pytest.approx(10_000 + gained)
    assert reward[0] == pytest.approx((gained + 150 * (20.0 - 1.2 * 11.0)) / 10_000 / 3)

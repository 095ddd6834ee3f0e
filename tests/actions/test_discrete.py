"""Buy, sell, hold; and orders in steps."""

import numpy as np
import pytest
from pydantic import ValidationError

from alphaswarm_rl.actions.discrete_buy_sell_hold import DiscreteBuySellHold
from alphaswarm_rl.actions.multi_discrete import MultiDiscreteOrders
from alphaswarm_rl.core.errors import DataError, EnvError
from alphaswarm_rl.envs.making import make_env
from tests.actions.views import ACCOUNT, FREE, decoded, panel_of, view_of

HOLD, BUY, SELL = range(3)
nan = float("nan")


def buy_sell_hold(**kwargs):
    return DiscreteBuySellHold(DiscreteBuySellHold.Config(**kwargs))


def in_steps(**kwargs):
    return MultiDiscreteOrders(MultiDiscreteOrders.Config(**kwargs))


class TestBuySellHold:
    @pytest.mark.parametrize(("short", "sold"), [(False, 0.0), (True, -1.0)])
    def test_it_means_leave_long_and_flat_or_short(self, short, sold):
        action = buy_sell_hold(short=short)
        view = view_of([HOLD, BUY, SELL], prices=(10.0,))
        assert decoded(action, view) == pytest.approx([nan, 1.0, sold], nan_ok=True)

    def test_it_trades_a_fraction_of_the_equity_in_its_asset(self):
        trade = buy_sell_hold(asset="A1", fraction=0.5).trade(panel_of(np.ones((3, 2))))
        assert (trade.way, trade.asset, trade.size, trade.by_units) == ("position", 1, 0.5, False)

    def test_with_several_assets_one_must_be_named(self):
        with pytest.raises(EnvError, match="the panel has 2"):
            buy_sell_hold().space(panel_of(np.ones((3, 2))))

    def test_an_unknown_asset_is_an_error_that_proposes_a_known_one(self):
        with pytest.raises(DataError, match="Did you mean 'A1'"):
            buy_sell_hold(asset="A11").trade(panel_of(np.ones((3, 2))))

    def test_an_episode_by_hand(self):
        env = make_env(
            "stock_trading",
            panel=panel_of([[10.0], [10.0], [11.0], [12.0], [12.0], [9.0]]),
            action={"class": "discrete_buy_sell_hold", "kwargs": {"fraction": 0.5}},
            observation=ACCOUNT,
            fill="next_close",
            initial_cash=1000.0,
            costs=FREE,
            episode_bars=None,
        )
        env.reset()
        values, cash = [], []
        for choice in (BUY, HOLD, BUY, SELL, HOLD):
            infos = env.step(np.array([choice]))[4]
            values.append(infos["portfolio_value"][0])
            cash.append(infos["cash"][0])
        # 50 units at 10; the second buy changes nothing; sold at 12.
        assert values == pytest.approx([1000.0, 1050.0, 1100.0, 1100.0, 1100.0])
        assert cash == pytest.approx([500.0, 500.0, 500.0, 1100.0, 1100.0])

    def test_encode_takes_the_action_that_leads_nearest(self):
        action = buy_sell_hold(short=True)
        # Flat, flat, flat, long with all, long with all.
        view = view_of([0] * 5, prices=(10.0,), cash=0.0, positions=[[0], [0], [0], [100], [100]])
        view.cash[:] = [1000, 1000, 1000, 0, 0]
        view.value[:] = 1000.0
        wishes = np.array([[0.9], [-0.6], [0.2], [1.0], [-1.0]])
        assert action.encode(view, wishes).tolist() == [BUY, SELL, HOLD, HOLD, SELL]

    def test_encode_without_shorts_sells_to_be_flat(self):
        action = buy_sell_hold()
        view = view_of([0, 0], prices=(10.0,), cash=0.0, positions=[[100.0], [100.0]])
        assert action.encode(view, np.array([[0.4], [0.6]])).tolist() == [SELL, HOLD]


class TestOrdersInSteps:
    def test_three_levels_sell_hold_buy(self):
        view = view_of([[0, 2], [1, 1]])
        assert decoded(in_steps(), view).tolist() == [[-100.0, 100.0], [0.0, 0.0]]

    def test_levels_are_even_steps(self):
        action = in_steps(levels=5, hmax=30)
        view = view_of([[0, 1], [2, 3], [4, 4]])
        assert decoded(action, view).tolist() == [[-30.0, -15.0], [0.0, 15.0], [30.0, 30.0]]

    @pytest.mark.parametrize("hmax", [7, 35, 70])
    def test_whole_steps_stay_whole_numbers(self, hmax):
        action = in_steps(levels=15, hmax=hmax)
        orders = decoded(action, view_of(np.arange(15)[:, None], prices=(1.0,)))[:, 0]
        assert orders.tolist() == [level * (hmax // 7) for level in range(-7, 8)]

    def test_the_shares_are_whole(self):
        trade = in_steps().trade(panel_of(np.ones((3, 2))))
        assert (trade.way, trade.whole) == ("shares", True)

    def test_an_even_number_of_levels_is_refused(self):
        with pytest.raises(ValidationError, match="odd"):
            MultiDiscreteOrders.Config(levels=4)

    def test_encode_takes_the_nearest_level(self):
        action = in_steps(levels=5, hmax=20)
        # 1000 in cash: 10 of the first at 10 are half a step short of 20; 50 of the second at 20 are more than hmax.
        view = view_of([[2, 2]])
        assert action.encode(view, np.array([[0.1, 1.0]])).tolist() == [[3, 4]]
        assert action.encode(view, np.array([[0.02, 0.0]])).tolist() == [[2, 2]]

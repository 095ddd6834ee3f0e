"""Lots of one asset, and which of them are legal."""

from dataclasses import replace

import numpy as np
import pytest

from alphaswarm_rl.actions.masked_discrete import MaskedDiscrete
from alphaswarm_rl.envs.making import make_env
from tests.actions.views import ACCOUNT, FREE, decoded, panel_of, state_of, view_of

nan = float("nan")


def lots(**kwargs):
    return MaskedDiscrete(MaskedDiscrete.Config(**kwargs))


def legal(action, *, positions=((0.0,),), cash=1000.0, price=10.0, **kwargs):
    view = view_of([0] * len(positions), prices=(price,), cash=cash, positions=positions, **kwargs)
    return action.mask(view, state_of(action, view)).astype(int).tolist()


class TestMask:
    def test_without_a_position_only_holding_and_affordable_buys_are_legal(self):
        # 25 in cash buys two at 10 with 1 % in reserve, 20.2; the third would need 30.3.
        assert legal(lots(max_units=3), cash=25.0) == [[0, 0, 0, 1, 1, 1, 0]]

    def test_the_reserve_for_costs_counts(self):
        assert legal(lots(max_units=2, cost_margin=0.01), cash=20.1) == [[0, 0, 1, 1, 0]]
        assert legal(lots(max_units=2, cost_margin=0.0), cash=20.1) == [[0, 0, 1, 1, 1]]

    def test_what_is_held_can_be_sold_and_no_more(self):
        assert legal(lots(max_units=3), positions=[[2.0]], cash=0.0) == [[0, 1, 1, 1, 0, 0, 0]]

    def test_shorts_are_legal_as_far_as_the_equity_reaches(self):
        # A short of two at 10 with 1 % in reserve needs 20.2.
        assert legal(lots(max_units=3, short=True), cash=25.0) == [[0, 1, 1, 1, 1, 1, 0]]

    def test_a_short_can_always_be_bought_back(self):
        # Worth 31 - 30 = 1: nothing can be opened.
        assert legal(lots(max_units=4, short=True), positions=[[-3.0]], cash=31.0) == [[0, 0, 0, 0, 1, 1, 1, 1, 0]]

    def test_other_positions_bind_equity_too(self):
        action = lots(asset="A0", max_units=1)
        view = view_of([1], prices=(10.0, 20.0), cash=5.0, positions=[[0.0, 3.0]])
        assert action.mask(view, {}).tolist() == [[False, True, False]]

    def test_targets_are_judged_by_the_order_that_leads_there(self):
        # Holding one, 15 in cash: one more is 10.1.
        assert legal(lots(mode="targets", max_units=3), positions=[[1.0]], cash=15.0) == [[1, 1, 1, 0]]

    def test_targets_with_shorts(self):
        assert legal(lots(mode="targets", max_units=2, short=True), cash=15.0) == [[0, 1, 1, 1, 0]]

    def test_an_asset_without_a_price_can_only_be_held(self):
        action = lots(max_units=1)
        view = view_of([1], prices=(10.0,))
        view.market = replace(view.market, close=np.zeros((3, 1)))
        assert action.mask(view, {}).tolist() == [[False, True, False]]

    @pytest.mark.parametrize(("fill", "expected"), [("same_close", [[0, 1, 0]]), ("next_close", [[0, 1, 1]])])
    def test_a_halt_counts_where_the_order_would_fill_in_the_bar_that_is_seen(self, fill, expected):
        action = lots(max_units=1)
        view = view_of([1], prices=(10.0,), fill=fill)
        view.market = replace(view.market, tradable=np.array([[True], [False], [True]]))
        assert action.mask(view, {}).astype(int).tolist() == expected

    @pytest.mark.parametrize("mode", ["orders", "targets"])
    @pytest.mark.parametrize("short", [False, True])
    def test_something_is_always_legal(self, mode, short):
        positions = np.array([[-7.5], [-0.3], [0.0], [0.3], [1.5], [9.0]])
        for price in (1e-3, 10.0, 1e6):
            masks = legal(lots(mode=mode, short=short, max_units=2), positions=positions, cash=0.0, price=price)
            assert all(any(row) for row in masks)


class TestStep:
    def test_orders_lead_from_the_position_to_a_target_in_units(self):
        action = lots(max_units=2, lot=5.0)
        view = view_of([0, 1, 2, 3, 4], prices=(1.0,), positions=[[10.0]] * 5)
        assert decoded(action, view) == pytest.approx([0.0, 5.0, nan, 15.0, 20.0], nan_ok=True)

    def test_targets_are_lots_and_the_one_that_is_held_holds(self):
        action = lots(mode="targets", max_units=2, lot=5.0)
        view = view_of([0, 1, 2], prices=(1.0,), positions=[[5.0]] * 3)
        assert decoded(action, view) == pytest.approx([0.0, nan, 10.0], nan_ok=True)

    def test_an_illegal_choice_holds(self):
        action = lots(max_units=1)
        # A sell of nothing, a buy without money.
        view = view_of([0, 2], prices=(10.0,), cash=5.0)
        assert np.isnan(decoded(action, view)).all()

    def test_fractional_lots_leave_no_dust(self):
        action = lots(max_units=1, lot=0.1)
        held = 0.1 + 0.1 + 0.1 - 0.1 - 0.1
        assert held != 0.1
        view = view_of([0], prices=(10.0,), positions=[[held]])
        assert decoded(action, view).tolist() == [0.0]

    def test_it_trades_units_of_one_asset(self):
        trade = lots(asset="A1").trade(panel_of(np.ones((3, 2))))
        assert (trade.way, trade.asset, trade.by_units, trade.size) == ("position", 1, True, 1.0)

    @pytest.mark.parametrize(("kwargs", "count"), [({}, 7), ({"mode": "targets"}, 4), ({"short": True}, 7)])
    def test_the_number_of_actions(self, kwargs, count):
        assert lots(max_units=3, **kwargs).space(panel_of(np.ones((3, 1)))).n == count

    def test_targets_with_shorts_go_both_ways(self):
        assert lots(max_units=3, mode="targets", short=True).space(panel_of(np.ones((3, 1)))).n == 7


class TestEncode:
    def test_it_takes_the_nearest_legal_action(self):
        action = lots(max_units=200)
        view = view_of([0, 0], prices=(10.0,), positions=[[0.0], [0.0]])
        # 1000 buys 99 at 10 with 1 % in reserve; half of it is 50.
        assert (action.encode(view, np.array([[1.0], [0.5]])) - 200).tolist() == [99, 50]

    def test_targets(self):
        action = lots(mode="targets", max_units=3, lot=10.0)
        view = view_of([0, 0, 0], prices=(10.0,), positions=[[0.0]] * 3)
        assert action.encode(view, np.array([[0.04], [0.19], [0.9]])).tolist() == [0, 2, 3]


class TestInAnEnvironment:
    def env(self, closes, **kwargs):
        return make_env(
            "stock_trading",
            panel=panel_of(np.array(closes, float)[:, None]),
            action={"class": "masked_discrete", "kwargs": {"max_units": 2, "cost_margin": 0.0, **kwargs}},
            observation=ACCOUNT,
            fill="next_close",
            initial_cash=25.0,
            costs=FREE,
            episode_bars=None,
        )

    def test_the_environment_offers_the_masks(self):
        env = self.env([10, 10, 10])
        env.reset()
        assert env.action_masks().astype(int).tolist() == [[0, 0, 1, 1, 1]]
        env.step(np.array([3]))
        assert env.action_masks().astype(int).tolist() == [[0, 1, 1, 1, 0]]

    def test_what_cannot_be_carried_at_the_fill_is_not_traded(self):
        env = self.env([10, 13, 13])
        env.reset()
        # Two were affordable at 10, and are not at 13.
        infos = env.step(np.array([4]))[4]
        assert (infos["cash"][0], infos["cost"][0]) == (25.0, 0.0)

    def test_money_by_hand(self):
        env = self.env([10, 10, 12, 11, 11])
        env.reset()
        values = [env.step(np.array([choice]))[4]["portfolio_value"][0] for choice in (4, 2, 1, 2)]
        # Two at 10, up to 12, one sold at 11.
        assert values == pytest.approx([25.0, 29.0, 27.0, 27.0])

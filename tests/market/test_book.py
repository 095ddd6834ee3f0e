"""Accounting by hand: every number here can be checked on paper."""

import pytest

from alphaswarm_rl.core.errors import BookError, DataError
from alphaswarm_rl.market.book import Book
from alphaswarm_rl.market.costs import CostModel
from alphaswarm_rl.market.margin import CASH_ACCOUNT, Margin
from alphaswarm_rl.market.quotes import Quotes
from tests.market.accounts import FREE

ONE_PERCENT = CostModel(commission_rate=0.01, half_spread_bps=0, borrow_rate=0)
exactly = pytest.approx


def book(cash=1000.0, positions=(0.0, 0.0), costs=FREE, margin=CASH_ACCOUNT):
    return Book(cash, list(positions), costs, margin)


class TestShares:
    def test_a_buy_pays_price_commission_and_spread(self):
        account = book(costs=CostModel(commission_rate=0.01, half_spread_bps=50))
        (fill,) = account.trade_shares([10, 0], Quotes([20.0, 5.0]))
        assert (fill.asset, fill.quantity, fill.price) == (0, 10.0, 20.0)
        assert (fill.commission, fill.spread, fill.impact) == (exactly(2.0), exactly(1.0), 0.0)
        assert account.cash == exactly(1000 - 200 - 3)
        assert account.equity([20.0, 5.0]) == exactly(1000 - fill.cost)

    def test_orders_are_cut_to_whole_units_towards_zero(self):
        account = book(positions=(5.0, 0.0))
        account.trade_shares([-2.9, 3.9], Quotes([10.0, 10.0]))
        assert account.positions == [3.0, 3.0]

    def test_sells_come_first_and_pay_for_buys(self):
        account = book(cash=0.0, positions=(10.0, 0.0))
        account.trade_shares([-10, 5], Quotes([10.0, 20.0]))
        assert (account.cash, account.positions) == (0.0, [0.0, 5.0])

    def test_the_largest_buy_comes_first_and_what_is_left_goes_to_the_next(self):
        account = book(cash=105.0, positions=(0.0, 0.0, 0.0))
        account.trade_shares([3, 20, 50], Quotes([5.0, 30.0, 40.0]))
        # Two of the third take 80; the second costs 30 and is skipped; the first gets the rest.
        assert account.positions == [3.0, 0.0, 2.0]
        assert account.cash == 10.0

    def test_equal_sizes_go_by_index(self):
        account = book(cash=100.0)
        account.trade_shares([10, 10], Quotes([10.0, 10.0]))
        assert account.positions == [10.0, 0.0]

    def test_a_fractional_buy_takes_all_cash_and_later_ones_get_nothing(self):
        account = book(cash=100.0, costs=ONE_PERCENT)
        account.trade_shares([10, 20], Quotes([10.0, 10.0]), whole=False)
        assert account.positions == [0.0, exactly(100 / 10.1)]
        assert 0 <= account.cash < 1e-9

    def test_nothing_is_sold_short(self):
        account = book(positions=(3.0, 0.0))
        account.trade_shares([-5, -5], Quotes([10.0, 10.0]))
        assert account.positions == [0.0, 0.0]

    def test_a_sell_that_brings_in_less_than_it_costs_is_not_made(self):
        account = book(cash=0.0, positions=(1.0, 0.0), costs=CostModel(commission_minimum=5.0))
        assert account.trade_shares([-1, 0], Quotes([4.0, 1.0])) == ()
        assert (account.cash, account.positions) == (0.0, [1.0, 0.0])

    def test_what_cannot_trade_is_left_alone(self):
        account = book(positions=(3.0, 0.0, 0.0))
        quotes = Quotes([10.0, 10.0, float("nan")], tradable=[False, True, True])
        account.trade_shares([-3, 1, 1], quotes)
        assert account.positions == [3.0, 1.0, 0.0]


class TestWeights:
    def test_weights_hold_exactly_after_costs(self):
        account = book(costs=ONE_PERCENT)
        account.trade_to_weights([0.5, 0.3], Quotes([10.0, 20.0]))
        # V' = 1000 - 0.01 * 0.8 V'
        after = 1000 / 1.008
        assert account.equity([10.0, 20.0]) == exactly(after, rel=1e-12)
        assert [account.positions[0] * 10, account.positions[1] * 20] == exactly([0.5 * after, 0.3 * after], rel=1e-12)
        assert account.cash == exactly(0.2 * after, rel=1e-11)

    def test_a_switch_pays_on_both_sides(self):
        account = book(cash=0.0, positions=(100.0, 0.0), costs=ONE_PERCENT)
        account.trade_to_weights([0.0, 1.0], Quotes([10.0, 20.0]))
        # Selling pays 10, and V' = 1000 - 10 - 0.01 V'.
        assert account.equity([10.0, 20.0]) == exactly(990 / 1.01, rel=1e-10)
        assert account.positions[0] == 0.0
        assert account.cash >= 0

    def test_the_rest_is_cash_and_stays_cash(self):
        account = book()
        account.trade_to_weights([0.1, 0.1], Quotes([10.0, 20.0]))
        assert account.cash == exactly(800.0)

    def test_holding_what_is_wanted_costs_nothing(self):
        account = book(cash=500.0, positions=(50.0, 0.0), costs=CostModel(commission_minimum=1.0))
        assert account.trade_to_weights([0.5, 0.0], Quotes([10.0, 20.0])) == ()

    def test_an_asset_that_cannot_trade_keeps_its_place_and_the_rest_is_cut(self):
        account = book(cash=400.0, positions=(60.0, 0.0))
        account.trade_to_weights([0.0, 1.0], Quotes([10.0, 20.0], tradable=[False, True]))
        assert account.positions == [60.0, exactly(20.0)]
        assert account.cash == exactly(0.0, abs=1e-7)

    def test_more_than_everything_is_cut_by_one_factor(self):
        account = book()
        account.trade_to_weights([1.0, 3.0], Quotes([10.0, 10.0]))
        assert account.positions == exactly([25.0, 75.0])
        assert account.cash >= 0

    def test_long_and_short_with_margin(self):
        account = book(costs=ONE_PERCENT, margin=Margin())
        account.trade_to_weights([1.0, -0.5], Quotes([10.0, 20.0]))
        after = 1000 / 1.015
        assert account.equity([10.0, 20.0]) == exactly(after, rel=1e-12)
        assert account.positions == exactly([after / 10, -0.5 * after / 20])
        assert account.cash == exactly(0.5 * after)

    def test_initial_margin_bounds_the_gross(self):
        account = book(margin=Margin(initial=0.5))
        account.trade_to_weights([3.0, -1.0], Quotes([10.0, 10.0]))
        assert account.gross([10.0, 10.0]) == exactly(2000.0)
        assert account.positions == exactly([150.0, -50.0])

    def test_a_cash_account_goes_flat_instead_of_short(self):
        account = book(cash=0.0, positions=(100.0, 0.0))
        account.trade_to_weights([-1.0, 0.5], Quotes([10.0, 10.0]))
        assert account.positions == [0.0, exactly(50.0)]

    def test_trades_that_cannot_be_paid_for_are_not_made(self):
        account = book(cash=10.0, costs=CostModel(commission_minimum=6.0))
        assert account.trade_to_weights([0.5, 0.5], Quotes([1.0, 1.0])) == ()
        assert account.cash == 10.0


class TestPosition:
    def test_long_short_flat_by_fraction(self):
        account = book(costs=ONE_PERCENT, margin=Margin())
        quotes = Quotes([10.0, 20.0])
        account.trade_to_position(0, 1, quotes, fraction=1.0)
        long = 1000 / 1.01
        assert account.positions == [exactly(long / 10), 0.0]
        account.trade_to_position(0, -1, quotes, fraction=1.0)
        # Closing pays 1 % of the long value, opening 1 % of the equity after.
        short = (long - 0.01 * long) / 1.01
        assert account.equity(quotes.prices) == exactly(short)
        assert account.positions == [exactly(-short / 10), 0.0]
        account.trade_to_position(0, 0, quotes, fraction=1.0)
        assert account.positions == [0.0, 0.0]
        assert account.cash == exactly(short * 0.99)

    def test_the_same_direction_is_held(self):
        account = book(cash=500.0, positions=(50.0, 0.0))
        assert account.trade_to_position(0, 1, Quotes([20.0, 1.0]), fraction=1.0) == ()

    def test_units_that_cannot_be_carried_are_not_opened(self):
        account = book(cash=100.0)
        account.trade_to_position(0, 1, Quotes([60.0, 1.0]), units=2)
        assert account.positions == [0.0, 0.0]
        account.trade_to_position(0, 1, Quotes([60.0, 1.0]), units=1)
        assert account.positions == [1.0, 0.0]

    def test_without_margin_for_the_short_a_long_still_closes(self):
        account = book(cash=-900.0, positions=(100.0, 0.0), margin=Margin())
        account.trade_to_position(0, -1, Quotes([10.0, 1.0]), units=100)
        assert (account.cash, account.positions) == (100.0, [0.0, 0.0])

    def test_a_size_is_a_fraction_or_units(self):
        with pytest.raises(BookError, match="fraction or units"):
            book().trade_to_position(0, 1, Quotes([1.0, 1.0]))


class TestHolding:
    def test_a_short_pays_borrow_per_bar(self):
        account = book(cash=2000.0, positions=(-100.0, 0.0), costs=CostModel(borrow_rate=0.0252), margin=Margin())
        assert account.accrue([10.0, 1.0]) == exactly(1000 * 0.0001)
        assert account.cash == exactly(1999.9)

    def test_borrowed_money_pays_borrow_too(self):
        account = book(cash=-500.0, positions=(150.0, 0.0), costs=CostModel(borrow_rate=0.0252), margin=Margin())
        assert account.accrue([10.0, 1.0]) == exactly(0.05)

    def test_what_is_paid_for_costs_nothing_to_hold(self):
        assert book(positions=(10.0, 0.0), costs=CostModel()).accrue([10.0, 1.0]) == 0

    def test_longs_pay_funding_to_shorts(self):
        costs = CostModel(borrow_rate=0, funding_rate=0.001)
        assert book(positions=(10.0, 0.0), costs=costs, margin=Margin()).accrue([10.0, 1.0]) == exactly(0.1)
        assert book(positions=(-10.0, 0.0), costs=costs, margin=Margin()).accrue([10.0, 1.0]) == exactly(-0.1)

    def test_a_dividend_moves_value_from_the_price_to_cash(self):
        account = book(positions=(10.0, -10.0), margin=Margin())
        before = account.equity([50.0, 30.0])
        account.adjust(dividends=[2.0, 1.0])
        assert account.cash == 1010.0
        assert account.equity([48.0, 29.0]) == before

    def test_a_split_changes_units_and_not_equity(self):
        account = book(positions=(10.0, -4.0), margin=Margin())
        before = account.equity([50.0, 30.0])
        account.adjust(splits=[2.0, 0.5])
        assert account.positions == [20.0, -2.0]
        assert account.equity([25.0, 60.0]) == before

    def test_a_split_comes_before_the_dividend_of_its_bar(self):
        account = book(positions=(10.0, 0.0))
        account.adjust(dividends=[1.0, 0.0], splits=[2.0, 1.0])
        assert account.cash == 1020.0

    def test_an_asset_that_ends_is_closed_at_its_last_price_with_a_reason(self):
        account = book(positions=(10.0, 5.0), costs=ONE_PERCENT)
        (fill,) = account.close([0], Quotes([7.0, 1.0], tradable=[False, True]), "the asset ended")
        assert (fill.quantity, fill.price, fill.reason) == (-10.0, 7.0, "the asset ended")
        assert (account.cash, account.positions) == (exactly(1000 + 70 - 0.7), [0.0, 5.0])

    def test_a_forced_sale_costs_at_most_its_value(self):
        account = book(cash=0.0, positions=(1.0, 0.0), costs=CostModel(commission_minimum=5.0))
        (fill,) = account.close([0], Quotes([2.0, 1.0]), "the asset ended")
        assert (account.cash, fill.cost) == (exactly(0.0, abs=1e-12), exactly(2.0))

    def test_a_called_account_is_liquidated(self):
        account = book(cash=2000.0, positions=(-100.0, 0.0), margin=Margin(initial=0.5, maintenance=0.25))
        assert not account.called([16.0, 1.0])  # equity 400 of 1600
        assert account.called([16.1, 1.0])  # equity 390 of 1610
        (fill,) = account.liquidate(Quotes([16.1, 1.0]))
        assert (fill.quantity, fill.reason) == (100.0, "margin call")
        assert (account.cash, account.positions) == (exactly(390.0), [0.0, 0.0])

    def test_what_cannot_trade_cannot_be_liquidated(self):
        account = book(cash=0.0, positions=(-1.0, 2.0), margin=Margin())
        account.liquidate(Quotes([10.0, 5.0], tradable=[False, True]))
        assert account.positions == [-1.0, 0.0]


class TestBadInput:
    @pytest.mark.parametrize("orders", [[1.0], [float("nan"), 0.0], [float("inf"), 0.0]])
    def test_orders_that_are_no_orders(self, orders):
        with pytest.raises(BookError):
            book().trade_shares(orders, Quotes([1.0, 1.0]))

    def test_impact_needs_volume(self):
        with pytest.raises(DataError, match="column 'volume'"):
            book(costs=CostModel(impact=0.1)).trade_to_weights([0.1, 0.1], Quotes([1.0, 1.0]))

    def test_funding_needs_margin(self):
        with pytest.raises(BookError, match="cash account"):
            book(costs=CostModel(funding_rate=0.1))

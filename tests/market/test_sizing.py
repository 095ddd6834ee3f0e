"""Weights become orders when a decision is made: worked examples, then what holds for every account."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from alphaswarm_rl.core.contracts import Trade
from alphaswarm_rl.core.errors import BookError, DataError
from alphaswarm_rl.market.book import Book
from alphaswarm_rl.market.costs import CostModel, carried, fee
from alphaswarm_rl.market.margin import CASH_ACCOUNT, Margin
from alphaswarm_rl.market.quotes import Quotes
from alphaswarm_rl.market.sizing import SHORTFALLS, SizedOrders, SizingRules, refuse_unsizable, size_orders
from tests.market.accounts import FREE, START, worlds

ONE_PERCENT = CostModel(commission_rate=0.01, half_spread_bps=0, borrow_rate=0)
SEEDS = st.integers(0, 2**32 - 1)
RULES = st.builds(
    SizingRules,
    rebalance_threshold=st.sampled_from([0.0, 0.05]),
    lot=st.sampled_from([0.0, 1.0, 5.0, 0.01]),
    min_notional=st.sampled_from([0.0, 2000.0]),
    max_order_notional=st.sampled_from([None, 15_000.0]),
)


def book(cash=1000.0, positions=(0.0, 0.0), costs=FREE, margin=CASH_ACCOUNT):
    return Book(cash, list(positions), costs, margin)


def sized(account, weights, quotes, **rules):
    """Orders, and the words why one is less."""
    orders, reasons = account.size_orders(weights, quotes, SizingRules(**rules))
    return orders, [SHORTFALLS[reason] for reason in reasons]


class TestRules:
    def test_an_order_is_the_weights_part_of_the_equity_less_what_is_held(self):
        account = book(cash=800.0, positions=(20.0, 0.0))
        assert sized(account, [0.1, 0.3], Quotes([10.0, 5.0])) == ([-10.0, 60.0], ["", ""])
        assert (account.cash, account.positions) == (800.0, [20.0, 0.0])

    def test_a_difference_below_the_threshold_is_no_order_and_a_weight_of_0_always_is(self):
        account = book(cash=960.0, positions=(2.0, 2.0))
        orders, why = sized(account, [0.04, 0.0], Quotes([10.0, 10.0]), rebalance_threshold=0.05)
        assert (orders, why) == ([0.0, -2.0], ["below_threshold", ""])
        orders, _ = sized(account, [0.07, 0.0], Quotes([10.0, 10.0]), rebalance_threshold=0.05)
        assert orders == [5.0, -2.0]  # a difference at the threshold is one

    def test_orders_are_whole_lots_towards_zero_and_the_rest_of_a_position_is_sold(self):
        account = book(cash=910.0, positions=(0.0, 9.0))
        assert sized(account, [0.39, 0.05], Quotes([10.0, 10.0]), lot=10) == ([30.0, 0.0], ["", "below_lot"])
        assert sized(account, [0.05, 0.0], Quotes([10.0, 10.0]), lot=10) == ([0.0, -9.0], ["below_lot", ""])

    def test_the_least_and_the_largest_order(self):
        account = book(cash=1000.0)
        orders, why = sized(
            account, [0.04, 0.5], Quotes([10.0, 10.0]), min_notional=50.0, max_order_notional=333.0, lot=1
        )
        assert (orders, why) == ([0.0, 33.0], ["below_min_notional", "largest_order"])

    def test_an_exit_that_is_larger_than_the_largest_order_goes_in_lots(self):
        account = book(cash=0.0, positions=(95.5, 0.0))
        orders, why = sized(account, [0.0, 0.0], Quotes([10.0, 10.0]), max_order_notional=333.0, lot=10)
        assert (orders, why) == ([-30.0, 0.0], ["largest_order", ""])

    def test_what_does_not_trade_is_not_ordered(self):
        account = book(cash=900.0, positions=(10.0, 0.0, 0.0))
        quotes = Quotes([10.0, 10.0, float("nan")], tradable=[False, True, True])
        orders, why = sized(account, [0.0, 0.5, 0.1], quotes)
        assert (orders, why) == ([0.0, 50.0, 0.0], ["not_tradable", "", "not_tradable"])

    def test_without_equity_nothing_is_ordered(self):
        account = book(cash=-500.0, positions=(10.0, 0.0), margin=Margin())
        assert sized(account, [0.5, 0.0], Quotes([10.0, 10.0])) == ([0.0, 0.0], ["no_equity", ""])

    def test_a_negative_weight_counts_as_0_where_the_account_cannot_be_short(self):
        account = book(cash=900.0, positions=(10.0, 0.0))
        assert sized(account, [-0.5, -0.1], Quotes([10.0, 10.0])) == ([-10.0, 0.0], ["", ""])


class TestBuyingPower:
    def test_sells_pay_for_buys(self):
        account = book(cash=0.0, positions=(100.0, 0.0))
        assert sized(account, [0.0, 1.0], Quotes([10.0, 10.0])) == ([-100.0, 100.0], ["", ""])

    def test_costs_are_part_of_it_and_the_least_valuable_buy_is_cut(self):
        orders, why = sized(book(costs=ONE_PERCENT), [0.4, 0.6], Quotes([10.0, 10.0]), lot=1)
        # 60 of the second cost 606; 394 pay for 39 of the first.
        assert (orders, why) == ([39.0, 60.0], ["buying_power", ""])

    def test_an_order_that_is_cut_below_the_least_is_none(self):
        account = book(cash=100.0, positions=(0.0, 0.0), margin=Margin(1.0, 0.0, short=False))
        orders, why = sized(account, [0.95, 0.5], Quotes([10.0, 10.0]), min_notional=20.0)
        assert (orders, why) == ([9.5, 0.0], ["", "buying_power"])

    def test_a_sell_that_costs_more_than_it_brings_is_not_ordered(self):
        account = book(cash=0.0, positions=(1.0, 0.0), costs=CostModel(commission_minimum=20.0))
        assert sized(account, [0.0, 0.0], Quotes([10.0, 10.0])) == ([0.0, 0.0], ["costs", ""])

    def test_a_margin_account_opens_what_its_initial_margin_carries(self):
        account = book(margin=Margin(0.5, 0.25))
        orders, why = sized(account, [-1.5, 1.0], Quotes([10.0, 10.0]))
        # 1500 short need 750 of 1000; the other 250 carry 500 long.
        assert orders == [-150.0, pytest.approx(50.0)]
        assert why == ["", "buying_power"]


class TestFills:
    def test_a_dearer_fill_cuts_the_least_valuable_order(self):
        account = book()
        account.trade_units([50, 50], Quotes([12.0, 10.0]), lot=1)
        assert account.positions == [50.0, 40.0]
        assert account.cash == 0.0

    def test_a_cash_account_sells_what_it_has_and_no_more(self):
        account = book(positions=(3.0, 0.0))
        (fill,) = account.trade_units([-5, -5], Quotes([10.0, 10.0]))
        assert (fill.quantity, account.positions) == (-3.0, [0.0, 0.0])

    def test_a_fraction_that_is_cut_is_the_last(self):
        account = book(positions=(0.0, 0.0, 0.0))
        account.trade_units([10, 90, 20], Quotes([10.0, 10.0, 10.0]))
        assert account.positions == [0.0, 90.0, pytest.approx(10.0)]
        assert 0 <= account.cash < 1e-8

    def test_an_order_that_turns_a_position_round_is_one_fill(self):
        account = book(cash=1000.0, positions=(-10.0, 0.0), costs=CostModel(commission_minimum=7.0), margin=Margin())
        (fill,) = account.trade_units([40, 0], Quotes([10.0, 10.0]))
        assert (fill.quantity, fill.commission) == (40.0, 7.0)
        assert account.positions[0] == 30.0
        assert account.cash == pytest.approx(1000 - 400 - fill.cost)

    def test_one_that_cannot_be_turned_round_is_closed_at_least(self):
        account = book(cash=100.0, positions=(10.0, 0.0), margin=Margin(0.5, 0.25))
        account.trade_units([-1000, 0], Quotes([10.0, 10.0]), lot=5)
        assert account.positions == [-40.0, 0.0]  # 200 of equity carry 400 short

    def test_nothing_is_opened_where_margin_is_lacking_and_reductions_pass(self):
        account = book(cash=-700.0, positions=(100.0, 0.0), margin=Margin(0.5, 0.25))
        account.trade_units([-10, 10], Quotes([10.0, 10.0]))
        assert account.positions == [90.0, 0.0]
        assert account.cash == pytest.approx(-600.0)


@examples(max_examples=300)
@given(
    lots=st.integers(0, 400),
    lot=st.sampled_from([1.0, 5.0, 0.1]),
    price=st.sampled_from([0.1, 0.3, 9.99, 70.1]),
    closed=st.sampled_from([0.0, -0.0, 7.0, -7.0]),
    initial=st.sampled_from([1.0, 0.5, 0.3]),
    rate=st.sampled_from([0.0, 0.0007, 0.01]),
    least=st.sampled_from([0.0, 1.0]),
    impact=st.sampled_from([0.0, 0.1]),
)
def test_money_for_exactly_so_many_lots_carries_them(lots, lot, price, closed, initial, rate, least, impact):
    model = CostModel(commission_rate=rate, commission_minimum=least, half_spread_bps=2.0, impact=impact)
    rates, sign = model.rates(252), math.copysign(1.0, closed)

    def needed(count):
        whole, part = (fee(rates, sign * units, price, 1e4).total for units in (abs(closed) + count * lot, abs(closed)))
        return initial * (count * lot * price) + (whole - part)

    def most(free):
        return carried(rates, free, price, 1e4, closed, initial, lot)

    free = needed(lots)
    assert most(free) == lots * lot
    if lots:
        assert most(free * (1 - 1e-9)) == (lots - 1) * lot
    assert most(-1.0) == 0.0


def random_accounts(world, seed, count):
    """Cash, positions and weights of accounts that may hold anything; prices, tradable and volume of each."""
    rng = np.random.default_rng(seed)
    shape = (count, world.assets)
    low = -1.0 if world.margin.short else 0.0
    positions = np.where(rng.random(shape) < 0.3, 0.0, rng.uniform(low, 1.0, shape)) * 1000.0
    positions = np.where(rng.random(shape) < 0.5, np.round(positions), positions)
    prices = np.nan_to_num(np.repeat(world.marks[-1:], count, axis=0))
    rows = (np.repeat(table[-1:], count, axis=0) for table in (world.tradable, world.volume))
    # Some weights are those that the account has already.
    cash = rng.uniform(-2000.0 if world.margin.lends else 0.0, START, count)
    equity = np.maximum(cash + (positions * prices).sum(axis=1), 1.0)[:, None]
    drift = np.where(rng.random(shape) < 0.3, 0.0, rng.normal(0, 0.2, shape))
    weights = np.where(rng.random(shape) < 0.2, 0.0, positions * prices / equity + drift)
    return cash, positions, weights, prices, *rows


def books_orders(world, rules, cash, positions, weights, prices, tradable, volume):
    accounts = [
        Book(money, held, world.costs, world.margin) for money, held in zip(cash, positions.tolist(), strict=True)
    ]
    quotes = (Quotes(*row) for row in zip(prices.tolist(), tradable.tolist(), volume.tolist(), strict=True))
    found = [
        account.size_orders(row, quote, rules)
        for account, row, quote in zip(accounts, weights.tolist(), quotes, strict=True)
    ]
    return SizedOrders(np.array([orders for orders, _ in found]), np.array([reasons for _, reasons in found]))


@examples(max_examples=150)
@given(world=worlds(bars=1), seed=SEEDS, rules=RULES)
def test_numba_and_torch_order_what_the_book_orders(world, seed, rules):
    given_ = random_accounts(world, seed, 4)
    before = [array.copy() for array in given_]
    cash, positions, weights, prices, tradable, volume = given_
    limits = (world.rates, world.margin, rules, volume)
    expected = books_orders(world, rules, *given_)
    found = size_orders(cash, positions, weights, prices, tradable, *limits)
    tensors = [torch.from_numpy(array) for array in given_]
    on_torch = size_orders(*tensors[:5], *limits[:3], tensors[5])
    for one in (found, SizedOrders(on_torch.orders.numpy(), on_torch.reasons.numpy())):
        if rules.lot >= 1:
            np.testing.assert_array_equal(one.orders, expected.orders)
        else:
            np.testing.assert_allclose(one.orders * prices, expected.orders * prices, rtol=1e-9, atol=1e-11 * START)
            np.testing.assert_array_equal(one.orders != 0, expected.orders != 0)
        np.testing.assert_array_equal(one.reasons, expected.reasons)
        assert one.reasons.dtype == np.int8
    np.testing.assert_array_equal(found.orders, on_torch.orders.numpy())
    for array, same in zip(given_, before, strict=True):
        np.testing.assert_array_equal(array, same)
    alone = size_orders(*(array[1:2] for array in given_[:5]), *limits[:3], volume[1:2])
    np.testing.assert_array_equal(alone.orders[0], found.orders[1])
    np.testing.assert_array_equal(alone.reasons[0], found.reasons[1])


@examples(max_examples=150)
@given(world=worlds(bars=1), seed=SEEDS, rules=RULES)
def test_orders_keep_to_the_rules_whatever_the_account(world, seed, rules):
    given_ = random_accounts(world, seed, 4)
    cash, positions, weights, prices, tradable, volume = given_
    found = size_orders(cash, positions, weights, prices, tradable, world.rates, world.margin, rules, volume)
    worth, held = np.abs(found.orders) * prices, positions != 0
    ordered = found.orders != 0
    assert (worth[ordered] >= rules.min_notional).all()
    assert (worth <= rules.most * (1 + 1e-12)).all()
    assert not ordered[~tradable].any()
    target = weights if world.margin.short else np.maximum(weights, 0.0)
    exits = held & (target == 0)
    if rules.lot:
        lots = found.orders[ordered & ~held] / rules.lot
        assert np.allclose(lots, np.round(lots), rtol=0, atol=1e-6)
    else:
        after = positions + found.orders
        assert (after[exits & (found.reasons == 0) & tradable] == 0).all()
    if not world.margin.short:
        assert (positions + found.orders >= 0).all()
    for row in range(len(cash)):
        account = Book(cash[row], positions[row].tolist(), world.costs, world.margin)
        quotes = Quotes(prices[row].tolist(), tradable[row].tolist(), volume[row].tolist())
        free = account.equity(prices[row]) - world.margin.initial * account.gross(prices[row])
        fills = account.trade_units(found.orders[row].tolist(), quotes, lot=rules.lot)
        # At the prices that it was sized by, an order is filled as it is.
        filled = np.zeros(world.assets)
        for fill in fills:
            filled[fill.asset] = fill.quantity
        np.testing.assert_allclose(filled * prices[row], found.orders[row] * prices[row], rtol=1e-9, atol=1e-6)
        left = account.equity(prices[row]) - world.margin.initial * account.gross(prices[row])
        paid = sum(fill.cost for fill in fills)
        assert left >= min(free, 0.0) - paid - 1e-6
        if not world.margin.lends:
            assert account.cash >= 0


def test_after_a_fraction_that_is_cut_nothing_follows():
    row = [[0.9, 0.6, 0.4]]
    given_ = [np.array([1000.0]), np.zeros((1, 3)), np.array(row), np.full((1, 3), 10.0), np.ones((1, 3), bool)]
    for arrays in (given_, [torch.from_numpy(array) for array in given_]):
        found = size_orders(*arrays, FREE.rates(252), CASH_ACCOUNT, SizingRules())
        assert found.orders.tolist() == [[90.0, pytest.approx(10.0), 0.0]]
        assert [SHORTFALLS[reason] for reason in found.reasons[0].tolist()] == ["", "buying_power", "buying_power"]


def test_impact_without_volume_and_arrays_that_do_not_fit_are_refused():
    one, two = np.ones((1, 1)), np.ones((1, 2))
    rest = (CASH_ACCOUNT, SizingRules())
    with pytest.raises(DataError, match="column 'volume'"):
        size_orders(np.ones(1), one, one, one, one > 0, CostModel(impact=0.1).rates(252), *rest)
    with pytest.raises(BookError, match=r"weights of shape \(1, 2\)"):
        size_orders(np.ones(1), one, two, one, one > 0, FREE.rates(252), *rest)


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ({"lot": -1.0}, "lot = -1.0: it is not a number from 0 up"),
        ({"rebalance_threshold": math.nan}, "rebalance_threshold = nan"),
        ({"min_notional": 10.0, "max_order_notional": 10.0}, "no order is both below it and at least"),
    ],
)
def test_rules_that_no_order_keeps_to_are_refused(rules, why):
    with pytest.raises(BookError, match=why):
        SizingRules(**rules)


@pytest.mark.parametrize("way", ["shares", "position"])
def test_what_gives_no_weights_is_not_sized(way):
    with pytest.raises(BookError, match="it makes units of weights"):
        refuse_unsizable(Trade(way))
    refuse_unsizable(Trade("weights"))

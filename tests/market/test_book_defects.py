"""Defects of published trading environments: one test for each, named after it, on what must happen instead."""

import numpy as np
import pytest

from alphaswarm_rl.market.book import Book
from alphaswarm_rl.market.costs import CostModel
from alphaswarm_rl.market.margin import Margin
from alphaswarm_rl.market.quotes import Quotes
from tests.market import numba_accounts
from tests.market.accounts import FREE

TENTH_OF_A_PERCENT = CostModel(commission_rate=0.001, half_spread_bps=0, borrow_rate=0)


def test_0_10_opening_a_short_does_not_debit_cash_and_position_both():
    # The published environment went from 100,000 to 99,799.9 by shorting one unit at 100.
    book = Book(100_000.0, [0.0], TENTH_OF_A_PERCENT, Margin())
    book.trade_to_position(0, -1, Quotes([100.0]), units=1)
    assert book.cash == pytest.approx(100_099.9)
    assert book.positions == [-1.0]
    assert book.equity([100.0]) == pytest.approx(99_999.9)
    assert book.equity([90.0]) == pytest.approx(100_009.9)


def test_0_11_the_fee_is_on_risky_assets_and_not_on_the_cash_leg():
    # All cash into one asset: the sum over all weights, cash included, is 2; what is traded is 1.
    book = Book(100_000.0, [0.0, 0.0], TENTH_OF_A_PERCENT)
    (fill,) = book.trade_to_weights([1.0, 0.0], Quotes([50.0, 50.0]))
    assert fill.cost == pytest.approx(100_000 * 0.001 / 1.001)


def test_0_11_turnover_leaves_the_cash_leg_out():
    cash, positions = np.array([100_000.0]), np.zeros((1, 2))
    cost, turnover, traded = np.empty(1), np.empty(1), np.empty((1, 2))
    prices = np.full((1, 2), 50.0)
    numba_accounts.trade_to_weights(
        cash, positions, np.array([[0.25, 0.25]]), np.zeros(1, np.int64), prices, np.ones((1, 2), bool), None,
        FREE.rates(252), Margin(), cost=cost, turnover=turnover, traded=traded,
    )  # fmt: skip
    assert turnover == pytest.approx(0.5)


def test_0_19_weights_below_one_are_not_scaled_up():
    book = Book(100.0, [0.0, 0.0], FREE)
    book.trade_to_weights([0.2, 0.2], Quotes([1.0, 1.0]))
    assert book.positions == pytest.approx([20.0, 20.0])
    assert book.cash == pytest.approx(60.0)


def test_fees_are_part_of_what_a_buy_must_afford():
    # FinRL's array environment leaves the fee out of the check, and cash turns negative.
    book = Book(100.0, [0.0], TENTH_OF_A_PERCENT)
    book.trade_shares([10], Quotes([10.0]))
    assert book.positions == [9.0]
    assert book.cash == pytest.approx(100 - 90.09)


def test_fractions_of_a_coin_can_be_bought():
    # FinRL's crypto environment floors cash over price: nothing below one whole coin.
    book = Book(100.0, [0.0], TENTH_OF_A_PERCENT)
    book.trade_shares([1.0], Quotes([50_000.0]), whole=False)
    assert book.positions[0] == pytest.approx(100 / 50_050)

"""What holds for every account, every market and every cost."""

import math

import pytest
from hypothesis import assume, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from alphaswarm_rl.market.book import Book
from alphaswarm_rl.market.costs import CostModel
from alphaswarm_rl.market.margin import CASH_ACCOUNT, Margin
from alphaswarm_rl.market.quotes import Quotes
from tests.market.accounts import START, WAYS, actions_for, asset_of, size_of, worlds

SEEDS = st.integers(0, 2**32 - 1)


def quotes_of(world, t):
    return Quotes(world.prices[t].tolist(), world.tradable[t].tolist(), world.volume[t].tolist())


def trade(book, way, action, quotes, asset):
    if way.endswith("shares"):
        return book.trade_shares(action.tolist(), quotes, whole=way == "whole shares")
    if way == "weights":
        return book.trade_to_weights(action.tolist(), quotes)
    return book.trade_to_position(asset, float(action), quotes, **{way: size_of(way)})


@pytest.mark.parametrize("way", WAYS)
@examples(max_examples=60)
@given(world=worlds(), seed=SEEDS)
def test_money_is_neither_made_nor_lost(way, world, seed):
    actions = actions_for(world, way, count=1, seed=seed)[:, 0]
    book = Book(START, [0.0] * world.assets, world.costs, world.margin)
    # A second account kept by hand, from the records alone.
    cash, units = START, [0.0] * world.assets
    for t in range(world.bars):
        quotes, marks = quotes_of(world, t), world.marks[t].tolist()
        before = book.equity(quotes.prices)
        fills = trade(book, way, actions[t], quotes, asset_of(world, 0))
        after = book.equity(quotes.prices)
        paid = sum(fill.cost for fill in fills)
        assert after == pytest.approx(before - paid, rel=1e-9, abs=1e-9 * START)
        for fill in fills:
            cash -= fill.quantity * fill.price + fill.cost
            units[fill.asset] += fill.quantity
        cash -= book.accrue(marks)
        value = sum(unit * mark for unit, mark in zip(units, marks, strict=True) if abs(unit) > 1e-9)
        assert book.equity(marks) == pytest.approx(cash + value, rel=1e-9, abs=1e-9 * START)
        assert book.equity(marks) == book.cash + book.net(marks)
        if not world.margin.lends:
            assert book.cash >= 0
            assert min(book.positions) >= 0


@examples(max_examples=150)
@given(world=worlds(bars=1), seed=SEEDS, held=st.booleans())
def test_weights_after_trading_are_the_targets(world, seed, held):
    book = Book(START, [0.0] * world.assets, world.costs, world.margin)
    targets = actions_for(world, "weights", count=2, seed=seed)[0] / (3.0 * world.assets)
    if not world.margin.short:
        targets = abs(targets)
    quotes = quotes_of(world, 0)
    if held:
        book.trade_to_weights(targets[0].tolist(), quotes)
    assume(abs(targets[1]).sum() <= 1)
    fills = book.trade_to_weights(targets[1].tolist(), quotes)
    equity = book.equity(quotes.prices)
    assume(fills or world.costs.commission_minimum == 0)
    for asset, target in enumerate(targets[1]):
        if quotes.trades(asset, book.rates):
            assert book.positions[asset] * quotes.prices[asset] / equity == pytest.approx(target, abs=1e-9)


@examples(max_examples=60)
@given(price=st.floats(0.1, 1e4), units=st.floats(0.01, 10))
def test_opening_a_short_changes_equity_by_its_costs_alone(price, units):
    book = Book(START, [0.0], CostModel(), Margin())
    (fill,) = book.trade_to_position(0, -1, Quotes([price]), units=units)
    assert book.equity([price]) == pytest.approx(START - fill.cost, rel=1e-12)
    assert book.cash == pytest.approx(START + units * price - fill.cost, rel=1e-12)


@examples(max_examples=60)
@given(
    positions=st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=5),
    price=st.floats(1, 1e3),
    ratio=st.sampled_from([0.1, 0.5, 1.5, 2.0, 3.0]),
    part=st.floats(0, 0.5),
)
def test_splits_and_dividends_conserve_equity(positions, price, ratio, part):
    book = Book(START, positions, CostModel(), Margin())
    before = book.equity([price] * len(positions))
    book.adjust([price / ratio * part] * len(positions), [ratio] * len(positions))
    after = book.equity([price / ratio * (1 - part)] * len(positions))
    assert after == pytest.approx(before, rel=1e-9, abs=1e-9 * (START + sum(map(abs, positions)) * price))


@examples(max_examples=60)
@given(world=worlds(bars=2, margins=(Margin(0.5, 0.4),), corporate=False), seed=SEEDS)
def test_a_liquidated_account_holds_nothing_that_trades(world, seed):
    book = Book(START, [0.0] * world.assets, world.costs, world.margin)
    book.trade_to_weights(actions_for(world, "weights", count=1, seed=seed)[0, 0].tolist(), quotes_of(world, 0))
    quotes = quotes_of(world, 1)
    before = book.equity(quotes.prices)
    fills = book.liquidate(quotes)
    assert book.equity(quotes.prices) == pytest.approx(before - sum(fill.cost for fill in fills), rel=1e-9, abs=1e-4)
    for asset, held in enumerate(book.positions):
        assert held == 0 or not quotes.trades(asset, book.rates)


@examples(max_examples=60)
@given(world=worlds(bars=4, margins=(CASH_ACCOUNT,)), seed=SEEDS)
def test_state_carried_over_continues_as_if_never_stopped(world, seed):
    actions = actions_for(world, "weights", count=1, seed=seed)[:, 0]
    whole = Book(START, [0.0] * world.assets, world.costs, world.margin)
    part = Book(START, [0.0] * world.assets, world.costs, world.margin)
    for t in range(world.bars):
        whole.trade_to_weights(actions[t].tolist(), quotes_of(world, t))
        part.trade_to_weights(actions[t].tolist(), quotes_of(world, t))
        part = Book(part.cash, list(part.positions), world.costs, world.margin)
    assert (part.cash, part.positions) == (whole.cash, whole.positions)
    assert math.isfinite(whole.cash)

"""Random markets, and three ways to run the same accounts through them: the Book, Numba and torch."""

from dataclasses import dataclass

import numpy as np
import torch
from hypothesis import strategies as st

from alphaswarm_rl.market import kernels_torch
from alphaswarm_rl.market.book import Book
from alphaswarm_rl.market.costs import CostModel
from alphaswarm_rl.market.margin import CASH_ACCOUNT, Margin
from alphaswarm_rl.market.quotes import Quotes
from alphaswarm_rl.market.sizing import SizingRules, size_orders
from tests.market import numba_accounts

START = 100_000.0
FREE = CostModel(commission_rate=0, half_spread_bps=0, borrow_rate=0)
MARGINS = (CASH_ACCOUNT, Margin(), Margin(0.5, 0.4, short=False))
WAYS = ("whole shares", "fractional shares", "weights", "fraction", "units")
#: Orders in units on an account of any margin, by the lot that a cut one keeps to.
LOTS = {"orders": 0.0, "orders in lots": 5.0}
#: Weights that become orders at the bar's mark and are filled at its price.
SIZED = {
    "sized": SizingRules(),
    "sized in lots": SizingRules(rebalance_threshold=0.02, lot=5.0, min_notional=300.0, max_order_notional=20_000.0),
}
UNIT_WAYS = (*LOTS, *SIZED)


@dataclass(frozen=True)
class World:
    """(T, A) arrays of a market, and the rules of the accounts in it."""

    prices: np.ndarray
    marks: np.ndarray
    tradable: np.ndarray
    volume: np.ndarray
    dividends: np.ndarray
    splits: np.ndarray
    ends: np.ndarray
    costs: CostModel
    margin: Margin

    @property
    def bars(self):
        return self.prices.shape[0]

    @property
    def assets(self):
        return self.prices.shape[1]

    @property
    def rates(self):
        return self.costs.rates(252)


def costs(*, funding):
    return st.builds(
        CostModel,
        commission_rate=st.sampled_from([0.0, 5e-4, 0.01]),
        sell_commission_rate=st.sampled_from([None, 0.002]),
        commission_per_share=st.sampled_from([0.0, 0.01]),
        commission_minimum=st.sampled_from([0.0, 1.0]),
        half_spread_bps=st.sampled_from([0.0, 2.0, 20.0]),
        impact=st.sampled_from([0.0, 0.1]),
        borrow_rate=st.sampled_from([0.0, 0.02]),
        funding_rate=st.sampled_from([0.0, 1e-4, -1e-4] if funding else [0.0]),
    )


@st.composite
def worlds(draw, *, bars=6, margins=MARGINS, corporate=True):
    margin = draw(st.sampled_from(margins))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    assets = draw(st.integers(1, 5))
    # Round prices make equal sizes and exactly affordable buys common, which random floats never are.
    decimals = draw(st.sampled_from([0, 1, 15]))
    volatility = draw(st.sampled_from([0.0, 0.02, 0.3]))
    marks = np.exp(rng.normal(3, 1) + np.cumsum(rng.normal(0, volatility, (bars, assets)), axis=0))
    marks = np.maximum(np.round(marks, decimals), 0.1)
    prices = np.maximum(np.round(marks * np.exp(rng.normal(0, volatility / 2, marks.shape)), decimals), 0.1)
    tradable = rng.random((bars, assets)) > draw(st.sampled_from([0.0, 0.3]))
    if draw(st.booleans()):
        # An asset that starts later has no price before.
        tradable[:2, 0] = False
        marks[:2, 0] = prices[:2, 0] = np.nan
    volume = rng.integers(0, 5, (bars, assets)) * 10_000.0
    quiet = not (corporate and draw(st.booleans()))
    chance = rng.random((bars, assets))
    return World(
        prices=prices,
        marks=marks,
        tradable=tradable,
        volume=volume,
        dividends=np.where(quiet | (chance < 0.8), 0.0, 0.25),
        splits=np.where(quiet | (chance > 0.2), 1.0, rng.choice([2.0, 0.5, 1.5], (bars, assets))),
        ends=~np.isnan(marks) & (np.full_like(tradable, not quiet) & (chance > 0.95)),
        costs=draw(costs(funding=margin.lends)),
        margin=margin,
    )


def actions_for(world, way, count, seed):
    """Random actions (T, N, A) or (T, N), some of them too large for the account, some of equal size."""
    rng = np.random.default_rng(seed)
    shape = (world.bars, count, world.assets)
    if way == "whole shares":
        return rng.choice([-3000.0, -40.0, -7.9, 0.0, 5.0, 5.5, 80.0, 900.0, 4000.0], shape)
    if way == "orders in lots":
        return rng.choice([-4000.0, -3000.0, -40.0, 0.0, 5.0, 80.0, 900.0, 4000.0], shape)
    if way in ("fractional shares", "orders"):
        return rng.normal(0, rng.choice([5.0, 4000.0]), shape)
    if way == "weights" or way in SIZED:
        targets = rng.normal(0, rng.choice([0.2, 1.0]), shape)
        # Unchanged targets lead to small trades, whose direction depends on what the others cost.
        keep = rng.random(shape[:2]) < 0.5
        for t in range(1, world.bars):
            targets[t, keep[t]] = targets[t - 1, keep[t]]
        return targets
    return rng.integers(-1, 2, shape[:2]).astype(float)


def size_of(way):
    return 5000.0 if way == "units" else 0.9


def lot_of(way):
    return LOTS[way] if way in LOTS else SIZED[way].lot


def sized(world, way, cash, positions, weights, t):
    """What accounts order for these weights at a bar's marks."""
    put = torch.from_numpy if isinstance(cash, torch.Tensor) else np.asarray
    rows = (np.repeat(table[t : t + 1], len(cash), axis=0) for table in (world.marks, world.tradable, world.volume))
    prices, tradable, volume = map(put, rows)
    return size_orders(cash, positions, weights, prices, tradable, world.rates, world.margin, SIZED[way], volume)


def run_books(world, way, actions):
    count = actions.shape[1]
    books = [Book(START, [0.0] * world.assets, world.costs, world.margin) for _ in range(count)]
    return _record(world, count, lambda t, i: _step_book(world, way, books[i], t, actions[t, i], i))


def asset_of(world, account):
    return account % world.assets


def forced_out(t, account):
    """Whether the account is liquidated in this bar, whatever its margin."""
    return (7 * t + 3 * account) % 5 == 4


def _step_book(world, way, book, t, action, account):
    quotes = Quotes(world.prices[t].tolist(), world.tradable[t].tolist(), world.volume[t].tolist())
    book.adjust(world.dividends[t].tolist(), world.splits[t].tolist())
    before = book.equity(quotes.prices)
    if way.endswith("shares"):
        fills = book.trade_shares(action.tolist(), quotes, whole=way == "whole shares")
    elif way in LOTS:
        fills = book.trade_units(action.tolist(), quotes, lot=LOTS[way])
    elif way in SIZED:
        seen = Quotes(world.marks[t].tolist(), quotes.tradable, quotes.volume)
        orders, _ = book.size_orders(action.tolist(), seen, SIZED[way])
        fills = book.trade_units(orders, quotes, lot=SIZED[way].lot)
    elif way == "weights":
        fills = book.trade_to_weights(action.tolist(), quotes)
    else:
        fills = book.trade_to_position(asset_of(world, account), float(action), quotes, **{way: size_of(way)})
    traded = np.zeros(world.assets)
    for fill in fills:
        traded[fill.asset] += fill.quantity
    moved = sum(abs(fill.quantity) * fill.price for fill in fills)
    forced = book.close(np.flatnonzero(world.ends[t]).tolist(), quotes, "ended")
    if forced_out(t, account):
        forced += book.liquidate(quotes)
    marks = world.marks[t].tolist()
    carry = book.accrue(marks)
    called = book.called(marks)
    return {
        "cash": book.cash,
        "positions": list(book.positions),
        "cost": sum(fill.cost for fill in (*fills, *forced)),
        "turnover": moved / before if before > 0 else 0.0,
        "traded": traded,
        "equity": book.equity(marks),
        "carry": carry,
        "called": called,
    }


def _record(world, count, step):
    rows = [[step(t, i) for i in range(count)] for t in range(world.bars)]
    return {key: np.array([[row[key] for row in bar] for bar in rows]) for key in rows[0][0]}


def run_numba(world, way, actions, *, parallel=False):
    count, assets = actions.shape[1], world.assets
    cash, positions = np.full(count, START), np.zeros((count, assets))
    asset = np.array([asset_of(world, i) for i in range(count)])
    bars = []
    for t in range(world.bars):
        time = np.full(count, t)
        cost, turnover, closing, equity, carry = (np.full(count, np.nan) for _ in range(5))
        traded, closed, called = np.full((count, assets), np.nan), np.empty((count, assets)), np.empty(count, bool)
        market = (time, world.prices, world.tradable, world.volume, world.rates)
        out = {"cost": cost, "turnover": turnover, "parallel": parallel}
        numba_accounts.adjust(cash, positions, time, world.dividends, world.splits, parallel=parallel)
        if way.endswith("shares"):
            whole = way == "whole shares"
            numba_accounts.trade_shares(cash, positions, actions[t], *market, whole=whole, traded=traded, **out)
        elif way in UNIT_WAYS:
            orders = np.ascontiguousarray(actions[t])
            if way in SIZED:
                orders = sized(world, way, cash, positions, orders, t).orders
            numba_accounts.trade_units(
                cash, positions, orders, *market, world.margin, lot=lot_of(way), traded=traded, **out
            )
        elif way == "weights":
            numba_accounts.trade_to_weights(cash, positions, actions[t], *market, world.margin, traded=traded, **out)
        else:
            one = np.full(count, np.nan)
            numba_accounts.trade_to_position(
                cash, positions, actions[t], asset, *market, world.margin, size=size_of(way), by_units=way == "units",
                traded=one, **out,
            )  # fmt: skip
            traded[:] = 0
            traded[np.arange(count), asset] = one
        rows = np.array([forced_out(t, i) for i in range(count)])
        numba_accounts.close_positions(
            cash, positions, rows, world.ends, *market, cost=closing, traded=closed, parallel=parallel
        )
        numba_accounts.mark(
            cash, positions, time, world.marks, world.rates, world.margin, equity=equity, carry=carry, called=called,
            parallel=parallel,
        )  # fmt: skip
        bars.append(
            {"cash": cash.copy(), "positions": positions.copy(), "cost": cost + closing, "turnover": turnover,
             "traded": traded, "equity": equity, "carry": carry, "called": called}
        )  # fmt: skip
    return {key: np.stack([bar[key] for bar in bars]) for key in bars[0]}


def torch_step(cash, positions, action, asset, rows, rates, margin, way):
    """Trades as `way` says; torch functions return everything anew."""
    if way.endswith("shares"):
        return kernels_torch.trade_shares(cash, positions, action, rows, rates, whole=way == "whole shares")
    if way in UNIT_WAYS:
        return kernels_torch.trade_units(cash, positions, action, rows, rates, margin, lot=lot_of(way))
    if way == "weights":
        return kernels_torch.trade_to_weights(cash, positions, action, rows, rates, margin)
    return kernels_torch.trade_to_position(
        cash, positions, action, asset, rows, rates, margin, size=size_of(way), by_units=way == "units"
    )


def run_torch(world, way, actions, step=torch_step):
    count = actions.shape[1]
    t_ = torch.from_numpy
    cash, positions = (
        torch.full((count,), START, dtype=torch.float64),
        torch.zeros(actions.shape[1], world.assets).double(),
    )
    asset = torch.tensor([asset_of(world, i) for i in range(count)])
    tables = (t_(world.prices), t_(world.tradable), t_(world.volume))
    bars = []
    for t in range(world.bars):
        time = torch.full((count,), t)
        cash, positions = kernels_torch.adjust(cash, positions, time, t_(world.dividends), t_(world.splits))
        rows = kernels_torch.MarketRows(time, *tables)
        action = t_(actions[t])
        if way in SIZED:
            action = sized(world, way, cash, positions, action, t).orders
        done = step(cash, positions, action, asset, rows, world.rates, world.margin, way)
        forced = torch.tensor([forced_out(t, i) for i in range(count)])
        closed = kernels_torch.close_positions(done.cash, done.positions, forced, t_(world.ends), rows, world.rates)
        positions = closed.positions
        cash, equity, carry, called = kernels_torch.mark(
            closed.cash, positions, time, t_(world.marks), world.rates, world.margin
        )
        bars.append(
            {"cash": cash, "positions": positions, "cost": done.cost + closed.cost, "turnover": done.turnover,
             "traded": done.traded, "equity": equity, "carry": carry, "called": called}
        )  # fmt: skip
    return {key: torch.stack([bar[key] for bar in bars]).numpy() for key in bars[0]}

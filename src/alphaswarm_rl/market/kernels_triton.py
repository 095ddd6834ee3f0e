"""Trading for N accounts on an NVIDIA GPU: `trade_shares`, `trade_to_weights` and `mark`, a kernel each.

What torch does in dozens of passes over memory is one here. For shares, one thread has one account and walks along its
assets, so that nothing is sorted: money is added up in the Book's order, and multiplications are not fused with
additions, so that share counts are the Book's. For weights, a few accounts are a tile in registers, and their equity
after costs is solved for by Newton's method, as in `kernels_numba`.

Accounts are cash (N,) and positions (N, A), the market's tables (T, A); account i reads row `time[i]`. A kernel takes
plain numbers as float32, so those that must be exact go in as one tensor of float64: `_LAYOUT` says which lies where.
"""

# Triton infers the types of jitted code, and annotations would claim what it does not check.
# ruff: noqa: N803, SIM108  (constants of a compilation are in capitals; and they choose between blocks of code)
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, misc"

import torch
import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]
from torch import Tensor
from triton import JITFunction  # type: ignore[import-not-found,import-untyped,unused-ignore]

from alphaswarm_rl.market.costs import NEWTON_STEPS, SPARE_CASH, CostRates
from alphaswarm_rl.market.kernels_torch import Marked, MarketRows, TorchTrader, Traded
from alphaswarm_rl.market.margin import Margin
from alphaswarm_rl.market.rebalance import DUST, SPARE_EQUITY, TOLERANCE

#: Accounts per program that trades shares, one per thread; and numbers per program that trades to weights.
_THREADS = 128
_TILE = 32
_WARPS = 1
#: Numbers per program that marks.
_MARK_TILE = 1024
#: Newton steps of weights at the most, and the part of the equity that counts as solved: a tile waits for its last.
_STEPS = 60
_SOLVED_PART = 1e-13

#: The exact numbers in the order in which they lie in the tensor, and the place of each for the kernels.
_LAYOUT = (
    "buy_rate",
    "sell_rate",
    "per_share",
    "minimum",
    "half_spread",
    "impact",
    "all_but_spare",
    "carried",
    "dust",
    "tolerance",
    "solved",
    "borrow",
    "funding",
    "maintenance",
)
_BUY_RATE = tl.constexpr(_LAYOUT.index("buy_rate"))
_SELL_RATE = tl.constexpr(_LAYOUT.index("sell_rate"))
_PER_SHARE = tl.constexpr(_LAYOUT.index("per_share"))
_MINIMUM = tl.constexpr(_LAYOUT.index("minimum"))
_HALF_SPREAD = tl.constexpr(_LAYOUT.index("half_spread"))
_IMPACT = tl.constexpr(_LAYOUT.index("impact"))
_ALL_BUT_SPARE = tl.constexpr(_LAYOUT.index("all_but_spare"))
_CARRIED = tl.constexpr(_LAYOUT.index("carried"))
_DUST = tl.constexpr(_LAYOUT.index("dust"))
_TOLERANCE = tl.constexpr(_LAYOUT.index("tolerance"))
_SOLVED = tl.constexpr(_LAYOUT.index("solved"))
_BORROW = tl.constexpr(_LAYOUT.index("borrow"))
_FUNDING = tl.constexpr(_LAYOUT.index("funding"))
_MAINTENANCE = tl.constexpr(_LAYOUT.index("maintenance"))


class TritonTrader(TorchTrader):
    """The trader whose steps are a kernel each; a trade marks in the same kernel.

    Args:
        rates: What trading costs.
        margin: What may be owed.
        device: Where the accounts are.
    """

    def __init__(self, rates: CostRates, margin: Margin, device: torch.device) -> None:
        super().__init__(rates, margin)
        self._short, self._lends = margin.short, margin.lends
        numbers = {
            **rates._asdict(),
            "all_but_spare": 1.0 - SPARE_CASH,
            "carried": (1.0 - SPARE_EQUITY) / margin.initial,
            "dust": DUST,
            "tolerance": TOLERANCE,
            "solved": _SOLVED_PART,
            "maintenance": margin.maintenance,
        }
        self._numbers = torch.tensor([numbers[name] for name in _LAYOUT], dtype=torch.float64, device=device)

    def trade_shares(
        self, cash: Tensor, positions: Tensor, orders: Tensor, rows: MarketRows, marks: Tensor | None, *, whole: bool
    ) -> tuple[Traded, Marked | None]:
        """Fills orders in units, and marks at the same row of `marks` where they are given."""
        return _both(_shares(cash, positions, orders.double(), *self._market(rows), marks, whole), marks)

    def trade_to_weights(
        self, cash: Tensor, positions: Tensor, targets: Tensor, rows: MarketRows, marks: Tensor | None
    ) -> tuple[Traded, Marked | None]:
        """Trades to target weights, and marks at the same row of `marks` where they are given."""
        limits = (self._short, self._lends)
        return _both(_weights(cash, positions, targets.double(), *self._market(rows), marks, *limits), marks)

    def mark(self, cash: Tensor, positions: Tensor, time: Tensor, marks: Tensor) -> Marked:
        """One bar's borrow and funding, then the equity at these marks, and who is below the maintenance margin."""
        return Marked(*_mark(cash, positions, time, marks.double(), self._numbers))

    def _market(self, rows: MarketRows) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor, bool]:
        """The arguments that both trades share, in the order of `_INPUTS`."""
        volume = rows.volume.double() if rows.volume is not None and self._rates.impact > 0 else None
        return rows.time, rows.prices.double(), rows.tradable, volume, self._numbers, self._rates.minimum > 0


_INPUTS = (
    "Tensor cash, Tensor positions, Tensor target, Tensor time, Tensor prices, Tensor tradable, Tensor? volume, "
    "Tensor numbers, bool minimum, Tensor? marks"
)
#: The place of the marks behind cash and positions in them.
_MARKS = 7
_OUTPUTS = "(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
#: Cash, positions, cost, turnover, units traded; equity, carry and who is called, which are empty without marks.
Results = tuple[Tensor, ...]


def _both(results: Results, marks: Tensor | None) -> tuple[Traded, Marked | None]:
    """What was traded, and the accounts as they are marked."""
    cash, *rest = results
    traded, (equity, carry, called) = Traded(cash, *rest[:4]), rest[4:]
    return traded, None if marks is None else Marked(cash, equity, carry, called)


@torch.library.custom_op(
    "alphaswarm_rl::trade_shares", mutates_args=(), schema=f"({_INPUTS}, bool whole) -> {_OUTPUTS}"
)
def _shares(
    cash: Tensor, positions: Tensor, target: Tensor, time: Tensor, prices: Tensor, tradable: Tensor,
    volume: Tensor | None, numbers: Tensor, minimum: bool, marks: Tensor | None, whole: bool,
) -> Results:  # fmt: skip
    results = _empty(cash, positions, marks)
    given = (cash, positions, target, time, prices, tradable, volume, numbers, minimum, marks)
    # What a thread keeps for later, asset after asset, so that neighbours lie beside each other.
    wishes = torch.empty(positions.shape[::-1], dtype=torch.float64, device=cash.device)
    _launch(
        _shares_kernel, given, _THREADS, wishes, *results, WHOLE=whole, NEWTON=NEWTON_STEPS, num_warps=_THREADS // 32
    )
    return results


@torch.library.custom_op(
    "alphaswarm_rl::trade_to_weights", mutates_args=(), schema=f"({_INPUTS}, bool short, bool lends) -> {_OUTPUTS}"
)
def _weights(
    cash: Tensor, positions: Tensor, target: Tensor, time: Tensor, prices: Tensor, tradable: Tensor,
    volume: Tensor | None, numbers: Tensor, minimum: bool, marks: Tensor | None, short: bool, lends: bool,
) -> Results:  # fmt: skip
    results = _empty(cash, positions, marks)
    given = (cash, positions, target, time, prices, tradable, volume, numbers, minimum, marks)
    width = triton.next_power_of_2(positions.shape[1])
    block = max(_TILE // width, 1)
    constants = {"WIDTH": width, "SHORT": short, "LENDS": lends, "STEPS": _STEPS, "num_warps": _WARPS}
    _launch(_weights_kernel, given, block, *results, **constants)
    return results


@_shares.register_fake
@_weights.register_fake
def _(cash: Tensor, positions: Tensor, *rest: Tensor | bool | None) -> Results:
    marks = rest[_MARKS]
    return _empty(cash, positions, marks if isinstance(marks, Tensor) else None)


@torch.library.custom_op("alphaswarm_rl::mark", mutates_args=())
def _mark(
    cash: Tensor, positions: Tensor, time: Tensor, marks: Tensor, numbers: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    count, assets = positions.shape
    results = _marked(cash)
    width = triton.next_power_of_2(assets)
    block = max(_MARK_TILE // width, 1)
    _mark_kernel[(triton.cdiv(count, block),)](
        cash.contiguous(),
        positions.contiguous(),
        time.contiguous(),
        marks.contiguous(),
        numbers,
        *results[:3],
        results[3].view(torch.uint8),
        count,
        assets,
        BLOCK=block,
        WIDTH=width,
        num_warps=4,
    )
    return results


@_mark.register_fake
def _(cash: Tensor, *rest: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return _marked(cash)


def _marked(cash: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Cash, equity, carry and who is called, to be written."""
    first, second, third = (torch.empty_like(cash) for _ in range(3))
    return first, second, third, torch.empty_like(cash, dtype=torch.bool)


def _empty(cash: Tensor, positions: Tensor, marks: Tensor | None) -> Results:
    """Results to be written."""
    one, all_ = cash.shape, positions.shape
    traded = tuple(torch.empty(shape, dtype=torch.float64, device=cash.device) for shape in (one, all_, one, one, all_))
    mark = _marked(cash if marks is not None else cash[:0])[1:]
    return (*traded, *mark)


def _launch(
    kernel: JITFunction,
    given: tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor | None, Tensor, bool, Tensor | None],
    block: int,
    *arguments: Tensor,
    **constants: int,
) -> None:
    """Runs a kernel over all accounts, `block` of them in a program; `given` are the arguments of `_INPUTS`."""
    cash, positions, target, time, prices, tradable, volume, numbers, minimum, marks = given
    count, assets = positions.shape
    inputs = [tensor.contiguous() for tensor in (cash, positions, target, time, prices)]
    kernel[(triton.cdiv(count, block),)](
        *inputs,
        tradable.contiguous().view(torch.uint8),
        inputs[-1] if volume is None else volume.contiguous(),
        numbers,
        inputs[-1] if marks is None else marks.double().contiguous(),
        *arguments[:-1],
        arguments[-1].view(torch.uint8),
        count,
        assets,
        BLOCK=block,
        MINIMUM=minimum,
        IMPACT=volume is not None,
        MARK=marks is not None,
        **constants,
        enable_fp_fusion=False,
    )


@triton.jit
def _fee(size, rate, price, volume, numbers, MINIMUM: tl.constexpr, IMPACT: tl.constexpr):
    value = size * price
    total = value * rate + size * tl.load(numbers + _PER_SHARE)
    if MINIMUM:
        total = tl.where(size > 0.0, tl.maximum(total, tl.load(numbers + _MINIMUM)), 0.0)
    total = total + value * tl.load(numbers + _HALF_SPREAD)
    if IMPACT:
        total = total + value * (tl.load(numbers + _IMPACT) * tl.sqrt(size / volume))
    return total


@triton.jit
def _units(money, linear, cubic, IMPACT: tl.constexpr, NEWTON: tl.constexpr):
    money = tl.maximum(money, 0.0)
    if not IMPACT:
        units = money / linear
    else:
        root = tl.minimum(tl.sqrt(money / linear), tl.exp(tl.log(money / cubic) / 3.0))
        for _ in range(NEWTON):
            square = root * root
            step = (cubic * square * root + linear * square - money) / (3.0 * cubic * square + 2.0 * linear * root)
            root = tl.where(money > 0.0, root - step, 0.0)
        units = root * root
    return units


@triton.jit
def _affordable(
    cash, price, volume, numbers,
    WHOLE: tl.constexpr, MINIMUM: tl.constexpr, IMPACT: tl.constexpr, NEWTON: tl.constexpr,
):  # fmt: skip
    rate = tl.load(numbers + _BUY_RATE)
    money = cash
    if not WHOLE:
        money = cash * tl.load(numbers + _ALL_BUT_SPARE)
    bare = price + price * tl.load(numbers + _HALF_SPREAD)
    cubic = price
    if IMPACT:
        cubic = price * tl.load(numbers + _IMPACT) / tl.sqrt(volume)
    units = _units(money, bare + price * rate + tl.load(numbers + _PER_SHARE), cubic, IMPACT, NEWTON)
    if MINIMUM:
        units = tl.minimum(units, _units(money - tl.load(numbers + _MINIMUM), bare, cubic, IMPACT, NEWTON))
    if WHOLE:
        units = tl.floor(units)
        more = units + 1.0
        one_more = more * price + _fee(more, rate, price, volume, numbers, MINIMUM, IMPACT) <= cash
        dear = units * price + _fee(units, rate, price, volume, numbers, MINIMUM, IMPACT) > cash
        units = tl.where(one_more, more, tl.where((units > 0.0) & dear, units - 1.0, units))
    return units


@triton.jit
def _reciprocal(number):
    """1 / number to the last bit or two, in a fraction of a division's time."""
    guess = (1.0 / number.to(tl.float32)).to(tl.float64)
    guess = guess * (2.0 - number * guess)
    return guess * (2.0 - number * guess)


@triton.jit
def _quote(prices_in, tradable_in, volume_in, quote, real, IMPACT: tl.constexpr):
    """Price, volume and whether the asset trades."""
    price = tl.load(prices_in + quote, mask=real, other=0.0)
    trades = (tl.load(tradable_in + quote, mask=real, other=0) != 0) & (price > 0.0)
    volume = price
    if IMPACT:
        volume = tl.load(volume_in + quote, mask=real, other=0.0)
        trades = trades & (volume > 0.0)
        volume = tl.where(trades, volume, 1.0)
    return price, volume, trades


@triton.jit
def _store_mark(cash, net, gross, numbers, equity_out, carry_out, called_out, rows, real):
    """Pays borrow and funding, writes equity, carry and who is called, and gives the cash that is left."""
    owed = (gross - net) / 2.0 + tl.maximum(-cash, 0.0)
    carry = tl.load(numbers + _BORROW) * owed + tl.load(numbers + _FUNDING) * net
    cash = cash - carry
    equity = cash + net
    tl.store(equity_out + rows, equity, mask=real)
    tl.store(carry_out + rows, carry, mask=real)
    tl.store(called_out + rows, (equity < tl.load(numbers + _MAINTENANCE) * gross).to(tl.uint8), mask=real)
    return cash


@triton.jit
def _shares_kernel(
    cash_in, positions_in, orders_in, time_in, prices_in, tradable_in, volume_in, numbers, marks_in, wishes,
    cash_out, positions_out, cost_out, turnover_out, traded_out, equity_out, carry_out, called_out, count, assets,
    BLOCK: tl.constexpr, MINIMUM: tl.constexpr, IMPACT: tl.constexpr, MARK: tl.constexpr, WHOLE: tl.constexpr,
    NEWTON: tl.constexpr,
):  # fmt: skip
    rows = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    real = rows < count
    place, at = rows * assets, tl.load(time_in + rows, mask=real, other=0) * assets
    cash = tl.load(cash_in + rows, mask=real, other=0.0)
    buy_rate, sell_rate = tl.load(numbers + _BUY_RATE), tl.load(numbers + _SELL_RATE)

    # The orders before cash is looked at, added up from left to right; sells are done at once.
    nothing = cash * 0.0
    equity, total, money, cheapest = nothing, nothing, cash, nothing + float("inf")
    for k in range(assets):
        held = tl.load(positions_in + place + k, mask=real, other=0.0)
        order = tl.load(orders_in + place + k, mask=real, other=0.0)
        price, volume, trades = _quote(prices_in, tradable_in, volume_in, at + k, real, IMPACT)
        equity += tl.where(held != 0.0, held * price, 0.0)
        if WHOLE:
            order = tl.where(order < 0.0, tl.ceil(order), tl.floor(order))
        order = tl.where(trades, tl.maximum(order, tl.minimum(-held, 0.0)), 0.0)
        price = tl.where(trades, price, 0.0)
        size = tl.abs(order)
        fee = _fee(size, tl.where(order > 0.0, buy_rate, sell_rate), price, volume, numbers, MINIMUM, IMPACT)
        value = size * price
        selling = (order < 0.0) & (value > fee)
        money += tl.where(selling, value - fee, 0.0)
        total += tl.where(order > 0.0, value + fee, 0.0)
        cheapest = tl.where(order > 0.0, tl.minimum(cheapest, price), cheapest)
        tl.store(traded_out + place + k, tl.where(selling, order, 0.0), mask=real)
        tl.store(wishes + k * count + rows, tl.where(order > 0.0, order, 0.0), mask=real)
    equity = cash + equity

    # Where the money does not reach, the largest comes first, the earlier among equals; all others buy everything.
    everything = total <= money
    left = tl.where(everything, money - total, money)
    last_size, last = nothing + float("inf"), (nothing - 1.0).to(tl.int32)
    active = real & (everything == 0)
    while tl.max(active.to(tl.int32), axis=0) > 0:
        size, chosen = nothing, (nothing - 1.0).to(tl.int32)
        for k in range(assets):
            wish = tl.load(wishes + k * count + rows, mask=active, other=0.0)
            better = ((wish < last_size) | ((wish == last_size) & (last < k))) & (wish > size)
            size = tl.where(better, wish, size)
            chosen = tl.where(better, k, chosen)
        active = active & (chosen >= 0)
        price, volume, trades = _quote(prices_in, tradable_in, volume_in, at + chosen, active, IMPACT)
        price = tl.where(active, price, 1.0)
        fits = size * price + _fee(size, buy_rate, price, volume, numbers, MINIMUM, IMPACT) <= left
        most = _affordable(left, price, volume, numbers, WHOLE, MINIMUM, IMPACT, NEWTON)
        number = tl.where(active, tl.where(fits, size, most), 0.0)
        left = left - (number * price + _fee(number, buy_rate, price, volume, numbers, MINIMUM, IMPACT))
        tl.store(traded_out + place + chosen, number, mask=active)
        last_size, last = tl.where(active, size, last_size), tl.where(active, chosen, last)
        if WHOLE:
            # A unit costs at least its price: nothing is left that could be bought.
            active = active & (left >= cheapest)
        else:
            # A fractional buy that is cut is the last.
            active = active & fits

    cost, moved, net, gross = nothing, nothing, nothing, nothing
    for k in range(assets):
        held = tl.load(positions_in + place + k, mask=real, other=0.0)
        traded = tl.load(traded_out + place + k, mask=real, other=0.0)
        wish = tl.load(wishes + k * count + rows, mask=real, other=0.0)
        traded = tl.where(everything & (wish > 0.0), wish, traded)
        price, volume, trades = _quote(prices_in, tradable_in, volume_in, at + k, real, IMPACT)
        price = tl.where(trades, price, 0.0)
        size = tl.abs(traded)
        cost += _fee(size, tl.where(traded > 0.0, buy_rate, sell_rate), price, volume, numbers, MINIMUM, IMPACT)
        moved += size * price
        tl.store(traded_out + place + k, traded, mask=real)
        tl.store(positions_out + place + k, held + traded, mask=real)
        if MARK:
            mark = tl.load(marks_in + at + k, mask=real, other=0.0)
            worth = tl.where(held + traded != 0.0, (held + traded) * mark, 0.0)
            net += worth
            gross += tl.abs(worth)
    alive = equity > 0.0
    if MARK:
        left = _store_mark(left, net, gross, numbers, equity_out, carry_out, called_out, rows, real)
    tl.store(cash_out + rows, left, mask=real)
    tl.store(cost_out + rows, cost, mask=real)
    tl.store(turnover_out + rows, tl.where(alive, moved / tl.where(alive, equity, 1.0), 0.0), mask=real)


@triton.jit
def _weights_kernel(
    cash_in, positions_in, targets_in, time_in, prices_in, tradable_in, volume_in, numbers, marks_in, cash_out,
    positions_out, cost_out, turnover_out, traded_out, equity_out, carry_out, called_out, count, assets,
    BLOCK: tl.constexpr, WIDTH: tl.constexpr, MINIMUM: tl.constexpr, IMPACT: tl.constexpr, MARK: tl.constexpr,
    SHORT: tl.constexpr, LENDS: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    rows = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    real = rows < count
    asset = tl.arange(0, WIDTH)
    here = real[:, None] & (asset < assets)[None, :]
    place = rows[:, None] * assets + asset[None, :]
    quote = tl.load(time_in + rows, mask=real, other=0)[:, None] * assets + asset[None, :]
    cash = tl.load(cash_in + rows, mask=real, other=0.0)
    held = tl.load(positions_in + place, mask=here, other=0.0)
    target = tl.load(targets_in + place, mask=here, other=0.0)
    price, volume, trades = _quote(prices_in, tradable_in, volume_in, quote, here, IMPACT)
    buy_rate, sell_rate, per_share = (
        tl.load(numbers + _BUY_RATE),
        tl.load(numbers + _SELL_RATE),
        tl.load(numbers + _PER_SHARE),
    )
    minimum, half_spread, impact = (
        tl.load(numbers + _MINIMUM),
        tl.load(numbers + _HALF_SPREAD),
        tl.load(numbers + _IMPACT),
    )
    carried = tl.load(numbers + _CARRIED)
    dust, tolerance, solved = tl.load(numbers + _DUST), tl.load(numbers + _TOLERANCE), tl.load(numbers + _SOLVED)

    worth = tl.where(held != 0.0, held * price, 0.0)
    equity = cash + tl.sum(worth, axis=1)
    if not SHORT:
        target = tl.maximum(target, 0.0)
    target = tl.where(trades, target, 0.0)
    gross = tl.sum(tl.abs(target), axis=1)
    fixed = tl.sum(tl.where(trades, 0.0, tl.abs(worth)), axis=1)
    # Units per unit of money, and the reciprocal of the weights: divisions take longer than all else in the loop.
    unit = target * _reciprocal(tl.where(trades, price, 1.0))
    per_gross = _reciprocal(tl.where(gross > 0.0, gross, 1.0))
    # What a unit costs, where that does not depend on how many there are.
    per_buy = price * (buy_rate + half_spread) + per_share
    per_sale = price * (sell_rate + half_spread) + per_share
    alive = real & (equity > 0.0)
    least = (dust * equity)[:, None]

    low, high, after, base, cost = cash * 0.0, equity, equity, equity, cash * 0.0
    open_, step = alive, 0
    while (tl.max(open_.to(tl.int32), axis=0) > 0) & (step < STEPS):
        bound = tl.where(gross > 0.0, (after * carried - fixed) * per_gross, after)
        cut = bound < after
        base = tl.where(open_, tl.where(cut, tl.maximum(bound, 0.0), after), base)
        bends = tl.where(cut, tl.where(bound > 0.0, carried * per_gross, 0.0), 1.0)
        move = unit * base[:, None] - held
        size = tl.abs(move)
        does = trades & (size * price > least)
        size = tl.where(does, size, 0.0)
        steep = tl.where(move > 0.0, per_buy, per_sale)
        fee = size * steep
        if MINIMUM:
            bare = price * half_spread
            least_fee = fee - size * bare <= minimum
            fee = tl.where(does & least_fee, minimum + size * bare, fee)
            steep = tl.where(least_fee, bare, steep)
        if IMPACT:
            more = price * impact * tl.sqrt(size / volume)
            fee += size * more
            steep += 1.5 * more
        slope = tl.sum(tl.where(does, tl.where(move > 0.0, steep, -steep) * unit, 0.0), axis=1) * bends
        paid = tl.sum(fee, axis=1)
        cost = tl.where(open_, paid, cost)
        gap = after + paid - equity
        open_ = open_ & (tl.abs(gap) > solved * equity)
        high = tl.where(open_ & (gap > 0.0), after, high)
        low = tl.where(open_ & (gap <= 0.0), after, low)
        nearer = tl.where(slope > -1.0, after - gap * _reciprocal(tl.where(slope > -1.0, 1.0 + slope, 1.0)), low)
        inside = (low < nearer) & (nearer < high)
        after = tl.where(open_, tl.where(inside, nearer, (low + high) / 2.0), after)
        step += 1

    goal = unit * base[:, None]
    does = trades & (tl.abs(goal - held) * price > least)
    value = tl.where(does, (goal - held) * price, 0.0)
    left = cash - cost - tl.sum(value, axis=1)
    done = alive & (tl.abs(equity - cost - after) <= tolerance * equity)
    if not LENDS:
        done = done & (left >= 0.0)
    does = does & done[:, None]
    moved = tl.sum(tl.abs(value), axis=1)
    after_trade = tl.where(does, goal, held)
    tl.store(positions_out + place, after_trade, mask=here)
    tl.store(traded_out + place, tl.where(does, goal - held, 0.0), mask=here)
    left = tl.where(done, left, cash)
    if MARK:
        mark = tl.load(marks_in + quote, mask=here, other=0.0)
        worth = tl.where(after_trade != 0.0, after_trade * mark, 0.0)
        net, all_ = tl.sum(worth, axis=1), tl.sum(tl.abs(worth), axis=1)
        left = _store_mark(left, net, all_, numbers, equity_out, carry_out, called_out, rows, real)
    tl.store(cash_out + rows, left, mask=real)
    tl.store(cost_out + rows, tl.where(done, cost, 0.0), mask=real)
    tl.store(turnover_out + rows, tl.where(done, moved / tl.where(alive, equity, 1.0), 0.0), mask=real)


@triton.jit
def _mark_kernel(
    cash_in, positions_in, time_in, marks_in, numbers, cash_out, equity_out, carry_out, called_out, count, assets,
    BLOCK: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    rows = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    real = rows < count
    asset = tl.arange(0, WIDTH)
    here = real[:, None] & (asset < assets)[None, :]
    at = tl.load(time_in + rows, mask=real, other=0) * assets
    held = tl.load(positions_in + rows[:, None] * assets + asset[None, :], mask=here, other=0.0)
    price = tl.load(marks_in + at[:, None] + asset[None, :], mask=here, other=0.0)
    worth = tl.where(held != 0.0, held * price, 0.0)
    net, gross = tl.sum(worth, axis=1), tl.sum(tl.abs(worth), axis=1)
    cash = tl.load(cash_in + rows, mask=real, other=0.0)
    cash = _store_mark(cash, net, gross, numbers, equity_out, carry_out, called_out, rows, real)
    tl.store(cash_out + rows, cash, mask=real)

"""Orders in units for N accounts on an NVIDIA GPU: `kernels_torch.trade_shares` as one Triton kernel.

A block of accounts is worked on in registers, assets along the first axis: what torch does in dozens of passes over
memory, because sorting and buying in turn do not fuse, is one here. Operations and their order are those of
`kernels_torch`, and multiplications are not fused with additions, so that share counts are the same.
"""

# Triton infers the types of jitted code, and annotations would claim what it does not check.
# ruff: noqa: N803  (constants of a compilation are in capitals)
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, misc"

from typing import Any

import torch
import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]
from torch import Tensor
from triton.language.extra import libdevice  # type: ignore[import-not-found,import-untyped,unused-ignore]

from alphaswarm_rl.market import kernels_torch
from alphaswarm_rl.market.costs import NEWTON_STEPS, SPARE_CASH, CostRates
from alphaswarm_rl.market.kernels_torch import Traded

#: Accounts per program, one per thread, and assets that still fit into a thread's registers.
_BLOCK = 32
_MOST_ASSETS = 64


class ShareTrader:
    """`kernels_torch.trade_shares` for one cost model.

    Args:
        rates: What trading costs.
        device: Where the accounts are.
    """

    def __init__(self, rates: CostRates, device: torch.device) -> None:
        self._rates = rates
        # A kernel takes plain numbers as float32: those that must be exact go in as a tensor.
        numbers = (rates.buy_rate, rates.sell_rate, rates.per_share, rates.minimum, rates.half_spread, rates.impact)
        self._numbers = torch.tensor([*numbers, 1.0 - SPARE_CASH], dtype=torch.float64, device=device)

    def __call__(
        self,
        cash: Tensor,
        positions: Tensor,
        orders: Tensor,
        time: Tensor,
        prices: Tensor,
        tradable: Tensor,
        volume: Tensor | None,
        rates: CostRates,
        *,
        whole: bool,
    ) -> Traded:
        """Fills the orders."""
        if positions.shape[1] > _MOST_ASSETS:
            market = (time, prices, tradable, volume, rates)
            return kernels_torch.trade_shares(cash, positions, orders, *market, whole=whole)
        units = volume if rates.impact > 0 else None
        quotes = (time, prices.double(), tradable, None if units is None else units.double())
        return Traded(*_operation(cash, positions, orders.double(), *quotes, self._numbers, whole, rates.minimum > 0))


@torch.library.custom_op(
    "alphaswarm_rl::trade_shares",
    mutates_args=(),
    schema="(Tensor cash, Tensor positions, Tensor orders, Tensor time, Tensor prices, Tensor tradable, "
    "Tensor? volume, Tensor numbers, bool whole, bool minimum) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
)
def _operation(
    cash: Tensor,
    positions: Tensor,
    orders: Tensor,
    time: Tensor,
    prices: Tensor,
    tradable: Tensor,
    volume: Tensor | None,
    numbers: Tensor,
    whole: bool,
    minimum: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    count, assets = positions.shape
    results = _empty(cash, positions)
    inputs = [tensor.contiguous() for tensor in (cash, positions, orders, time, prices)]
    _kernel[(triton.cdiv(count, _BLOCK),)](
        *inputs,
        tradable.contiguous().view(torch.uint8),
        inputs[-1] if volume is None else volume.contiguous(),
        numbers,
        *results,
        count,
        ASSETS=assets,
        WIDTH=triton.next_power_of_2(assets),
        BLOCK=_BLOCK,
        WHOLE=whole,
        MINIMUM=minimum,
        IMPACT=volume is not None,
        NEWTON=NEWTON_STEPS,
        num_warps=_BLOCK // 32,
        enable_fp_fusion=False,
    )
    return results


@_operation.register_fake
def _(cash: Tensor, positions: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    return _empty(cash, positions)


def _empty(cash: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Cash, positions, cost, turnover and units traded, to be written."""
    one, all_ = cash.shape, positions.shape
    return tuple(torch.empty(shape, dtype=torch.float64, device=cash.device) for shape in (one, all_, one, one, all_))


@triton.jit
def _fee(size, rate, price, volume, numbers, MINIMUM: tl.constexpr, IMPACT: tl.constexpr):
    value = size * price
    total = value * rate + size * tl.load(numbers + 2)
    if MINIMUM:
        total = tl.where(size > 0.0, tl.maximum(total, tl.load(numbers + 3)), 0.0)
    total = total + value * tl.load(numbers + 4)
    if IMPACT:
        total = total + value * (tl.load(numbers + 5) * tl.sqrt(size / volume))
    return total


@triton.jit
def _units(money, linear, cubic, IMPACT: tl.constexpr, NEWTON: tl.constexpr):
    money = tl.maximum(money, 0.0)
    if not IMPACT:
        units = money / linear
    else:
        root = tl.minimum(tl.sqrt(money / linear), libdevice.cbrt(money / cubic))
        for _ in tl.static_range(NEWTON):
            square = root * root
            step = (cubic * square * root + linear * square - money) / (3.0 * cubic * square + 2.0 * linear * root)
            root = tl.where(money > 0.0, root - step, 0.0)
        units = root * root
    return units


@triton.jit
def _affordable(
    cash,
    price,
    volume,
    numbers,
    WHOLE: tl.constexpr,
    MINIMUM: tl.constexpr,
    IMPACT: tl.constexpr,
    NEWTON: tl.constexpr,
):
    rate = tl.load(numbers)
    money = cash
    if not WHOLE:
        money = cash * tl.load(numbers + 6)
    price = tl.where(price > 0.0, price, 1.0)
    bare = price + price * tl.load(numbers + 4)
    cubic = price
    if IMPACT:
        cubic = price * tl.load(numbers + 5) / tl.sqrt(volume)
    units = _units(money, bare + price * rate + tl.load(numbers + 2), cubic, IMPACT, NEWTON)
    if MINIMUM:
        units = tl.minimum(units, _units(money - tl.load(numbers + 3), bare, cubic, IMPACT, NEWTON))
    if WHOLE:
        units = tl.floor(units)
        more = units + 1.0
        one_more = more * price + _fee(more, rate, price, volume, numbers, MINIMUM, IMPACT) <= cash
        dear = units * price + _fee(units, rate, price, volume, numbers, MINIMUM, IMPACT) > cash
        units = tl.where(one_more, more, tl.where((units > 0.0) & dear, units - 1.0, units))
    return units


@triton.jit
def _kernel(
    cash_in,
    positions_in,
    orders_in,
    time_in,
    prices_in,
    tradable_in,
    volume_in,
    numbers,
    cash_out,
    positions_out,
    cost_out,
    turnover_out,
    traded_out,
    count,
    ASSETS: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    WHOLE: tl.constexpr,
    MINIMUM: tl.constexpr,
    IMPACT: tl.constexpr,
    NEWTON: tl.constexpr,
):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    asset = tl.arange(0, WIDTH)[:, None]
    real = rows < count
    here = (asset < ASSETS) & real[None, :]
    place = rows[None, :].to(tl.int64) * ASSETS + asset
    quote = tl.load(time_in + rows, mask=real, other=0)[None, :] * ASSETS + asset

    cash = tl.load(cash_in + rows, mask=real, other=0.0)
    held = tl.load(positions_in + place, mask=here, other=0.0)
    wanted = tl.load(orders_in + place, mask=here, other=0.0)
    price = tl.load(prices_in + quote, mask=here, other=0.0)
    trades = (tl.load(tradable_in + quote, mask=here, other=0) != 0) & (price > 0.0)
    volume = price
    if IMPACT:
        volume = tl.load(volume_in + quote, mask=here, other=0.0)
        trades = trades & (volume > 0.0)
        volume = tl.where(trades, volume, 1.0)

    worth = tl.where(held != 0.0, held * price, 0.0)
    price = tl.where(trades, price, 0.0)
    if WHOLE:
        wanted = tl.where(wanted < 0.0, tl.ceil(wanted), tl.floor(wanted))
    wanted = tl.where(trades, tl.maximum(wanted, tl.minimum(-held, 0.0)), 0.0)
    buying = wanted > 0.0
    rate = tl.where(buying, tl.load(numbers), tl.load(numbers + 1))
    size = tl.abs(wanted)
    value = size * price
    fee = _fee(size, rate, price, volume, numbers, MINIMUM, IMPACT)
    selling = (wanted < 0.0) & (value > fee)
    proceeds = tl.where(selling, value - fee, 0.0)
    charge = tl.where(buying, value + fee, 0.0)
    wish = tl.where(buying, wanted, 0.0)

    # Sums from left to right; and each buy's turn: after those that are larger, or equal and to the left.
    equity = cash * 0.0
    total = cash * 0.0
    money = cash
    turn = asset * 0 + rows[None, :] * 0
    for k in tl.static_range(ASSETS):
        mine = asset == k
        equity += tl.sum(tl.where(mine, worth, 0.0), axis=0)
        money += tl.sum(tl.where(mine, proceeds, 0.0), axis=0)
        total += tl.sum(tl.where(mine, charge, 0.0), axis=0)
        other = tl.sum(tl.where(mine, wish, 0.0), axis=0)[None, :]
        turn += ((other > wish) | ((other == wish) & (asset > k))).to(tl.int32)
    equity = cash + equity

    everything = total <= money
    left = money - total
    bought = wish
    if tl.min(everything.to(tl.int32), axis=0) == 0:
        filled = wish * 0.0
        cut = cash != cash
        for k in range(ASSETS):
            mine = turn == k
            units = tl.sum(tl.where(mine, wish, 0.0), axis=0)
            at = tl.sum(tl.where(mine, price, 0.0), axis=0)
            traded_units = at
            if IMPACT:
                traded_units = tl.sum(tl.where(mine, volume, 0.0), axis=0)
            fits = tl.sum(tl.where(mine, charge, 0.0), axis=0) <= money
            most = _affordable(money, at, traded_units, numbers, WHOLE, MINIMUM, IMPACT, NEWTON)
            number = tl.where(fits, units, most)
            if not WHOLE:
                number = tl.where(cut, 0.0, number)
                cut = cut | (fits == 0)
            number = tl.where(units > 0.0, number, 0.0)
            money = money - (number * at + _fee(number, tl.load(numbers), at, traded_units, numbers, MINIMUM, IMPACT))
            filled += tl.where(mine, number[None, :], 0.0)
        bought = tl.where(everything[None, :], wish, filled)
        left = tl.where(everything, left, money)

    traded = tl.where(selling, wanted, bought)
    size = tl.abs(traded)
    rate = tl.where(traded > 0.0, tl.load(numbers), tl.load(numbers + 1))
    cost = tl.sum(_fee(size, rate, price, volume, numbers, MINIMUM, IMPACT), axis=0)
    moved = tl.sum(size * price, axis=0)
    alive = equity > 0.0
    tl.store(cash_out + rows, left, mask=real)
    tl.store(positions_out + place, held + traded, mask=here)
    tl.store(traded_out + place, traded, mask=here)
    tl.store(cost_out + rows, cost, mask=real)
    tl.store(turnover_out + rows, tl.where(alive, moved / tl.where(alive, equity, 1.0), 0.0), mask=real)

"""What trading costs.

A cost is money, taken from cash at the fill (commission, spread, impact) or at the mark (borrow, funding). Fill prices
stay the prices of the bar; the record of a fill says how much of each cost it paid. The formulas, for `n` units at a
price `p` where the bar traded `volume` units:

    commission = max(minimum, n p rate + n per_share)       per order
    spread     = n p half_spread
    impact     = n p impact sqrt(n / volume)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import NamedTuple

from alphaswarm_rl.core.errors import BookError, DataError

_BPS = 1e-4
#: Part of the cash that a fractional all-in buy leaves, so that rounding can never make cash negative.
SPARE_CASH = 1e-12
#: Newton steps for the root of a cubic from a start that is at most a factor sqrt(2) too high; 5 reach the last bit.
NEWTON_STEPS = 6


class CostRates(NamedTuple):
    """A cost model as plain numbers, all of them fractions or money: what kernels take."""

    buy_rate: float
    sell_rate: float
    per_share: float
    minimum: float
    half_spread: float
    impact: float
    borrow: float
    funding: float


@dataclass(frozen=True)
class CostModel:
    """The costs of trading and of holding. Nothing is free unless it is set to 0.

    The default is a cheap retail broker in liquid shares: 5 bps commission, 2 bps half-spread, 2 % a year on what is
    borrowed.

    Attributes:
        commission_rate: Commission as a fraction of the money traded.
        sell_commission_rate: The same for sells, where it differs (stamp duty, FinRL's two rates); None: no difference.
        commission_per_share: Commission in money per unit traded.
        commission_minimum: Least commission in money per order.
        half_spread_bps: Half of the distance between bid and ask, in basis points of the price.
        impact: Relative loss when trading as much as the bar's whole volume; it goes with the square root of the share
            of volume. Needs volume. 0: no impact.
        borrow_rate: Yearly rate paid, bar by bar, on the value of shorts and on negative cash.
        funding_rate: Rate per bar that longs pay and shorts receive on the value held (perpetual futures).
    """

    commission_rate: float = 0.0005
    sell_commission_rate: float | None = None
    commission_per_share: float = 0.0
    commission_minimum: float = 0.0
    half_spread_bps: float = 2.0
    impact: float = 0.0
    borrow_rate: float = 0.02
    funding_rate: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None:
                continue
            # Funding alone may be negative: then shorts pay longs.
            if not math.isfinite(value) or (value < 0 and field.name != "funding_rate"):
                raise BookError(f"cost {field.name} = {value!r}", "it is not a number from 0 up", "Give one.")
        for name in ("commission_rate", "sell_commission_rate"):
            if (getattr(self, name) or 0.0) + self.half_spread_bps * _BPS >= 1:
                raise BookError(
                    f"cost {name} = {getattr(self, name)!r}",
                    "with the half-spread it takes the whole value of a trade",
                    "Give it as a fraction: 0.0005 is 5 basis points.",
                )

    def rates(self, periods_per_year: float) -> CostRates:
        """The numbers that kernels take, with the yearly borrow rate turned into one per bar."""
        if not periods_per_year > 0:
            raise BookError(f"periods_per_year = {periods_per_year!r}", "it is not positive", "Daily bars have 252.")
        sell = self.commission_rate if self.sell_commission_rate is None else self.sell_commission_rate
        return CostRates(
            buy_rate=float(self.commission_rate),
            sell_rate=float(sell),
            per_share=float(self.commission_per_share),
            minimum=float(self.commission_minimum),
            half_spread=self.half_spread_bps * _BPS,
            impact=float(self.impact),
            borrow=self.borrow_rate / periods_per_year,
            funding=float(self.funding_rate),
        )

    def check_volume(self, volume: object | None) -> None:
        """Refuses impact where there is no volume."""
        if self.impact > 0 and volume is None:
            raise DataError(
                "column 'volume'",
                "the cost model has impact, which is a function of the bar's volume, and the data has none",
                "Give volume, or set impact to 0.",
            )


class Fee(NamedTuple):
    """The costs of one fill, in money."""

    commission: float
    spread: float
    impact: float

    @property
    def total(self) -> float:
        """All of them."""
        return self.commission + self.spread + self.impact


def fee(rates: CostRates, quantity: float, price: float, volume: float) -> Fee:
    """What filling `quantity` units (positive: a buy) at `price` costs; nothing for nothing.

    This is the definition. Batched forms, held to it by tests: `kernels_numba._fee`, `kernels_torch.fees`,
    `kernels_triton._fee`; the solver for weights in `kernels_triton` has it once more, factored for its slope.
    """
    size = abs(quantity)
    if size == 0:
        return Fee(0.0, 0.0, 0.0)
    value = size * price
    rate = rates.buy_rate if quantity > 0 else rates.sell_rate
    impact = value * (rates.impact * math.sqrt(size / volume)) if rates.impact > 0 else 0.0
    return Fee(max(rates.minimum, value * rate + size * rates.per_share), value * rates.half_spread, impact)


def charge(rates: CostRates, size: float, price: float, volume: float) -> float:
    """The cash that a buy of `size` units takes, costs included."""
    return size * price + fee(rates, size, price, volume).total


def affordable(rates: CostRates, cash: float, price: float, volume: float, *, whole: bool) -> float:
    """The most units that `cash` pays for, costs included.

    Whole: the largest whole number whose charge is at most `cash`. Fractional: all but `SPARE_CASH` of it is spent.
    """
    money = cash if whole else cash * (1.0 - SPARE_CASH)
    bare = price + price * rates.half_spread
    cubic = price * rates.impact / math.sqrt(volume) if rates.impact > 0 else 0.0
    # The charge is the larger of two increasing functions, one for each side of the commission's maximum.
    units = min(
        _units(money, bare + price * rates.buy_rate + rates.per_share, cubic),
        _units(money - rates.minimum, bare, cubic),
    )
    if not whole:
        return units
    units = math.floor(units)
    if charge(rates, units + 1.0, price, volume) <= cash:
        return units + 1.0
    if units > 0 and charge(rates, units, price, volume) > cash:
        return units - 1.0
    return float(units)


def carried(
    rates: CostRates, free: float, price: float, volume: float, closed: float, initial: float, lot: float
) -> float:
    """The most units beyond `closed` whose initial margin and costs `free` pays for.

    With an initial margin of 1 and nothing closed it is `affordable`.

    Args:
        rates: What trading costs.
        free: Equity beyond the initial margin of what is held.
        price: Money per unit.
        volume: Units that the bar traded.
        closed: Units of the same order that closed a position; its sign, of zero too, is the order's.
        initial: Equity needed over the value held.
        lot: Units that the number is a multiple of; 0: all but `SPARE_CASH` of what is free is used.
    """
    base, paid = abs(closed), fee(rates, closed, price, volume).total
    money = (free if lot > 0 else free * (1.0 - SPARE_CASH)) + (initial * (base * price) + paid)
    rate = rates.sell_rate if math.copysign(1.0, closed) < 0 else rates.buy_rate
    bare = price * initial + price * rates.half_spread
    cubic = price * rates.impact / math.sqrt(volume) if rates.impact > 0 else 0.0
    units = min(_units(money, bare + price * rate + rates.per_share, cubic), _units(money - rates.minimum, bare, cubic))
    units = max(units - base, 0.0)
    if lot == 0:
        return units

    def needed(count: float) -> float:
        size = count * lot
        return initial * (size * price) + (fee(rates, math.copysign(base + size, closed), price, volume).total - paid)

    count = float(math.floor(units / lot))
    if needed(count + 1.0) <= free:
        count += 1.0
    elif count > 0 and needed(count) > free:
        count -= 1.0
    return count * lot


def _units(money: float, linear: float, cubic: float) -> float:
    """The n of  linear n + cubic n^1.5 = money; 0 where there is no money."""
    if money <= 0:
        return 0.0
    if cubic == 0:
        return money / linear
    # In x = sqrt(n). Each bound leaves out one of the terms, so at the smaller one at most twice the money is spent.
    root: float = min(math.sqrt(money / linear), (money / cubic) ** (1.0 / 3.0))
    for _ in range(NEWTON_STEPS):
        root -= (cubic * root**3 + linear * root**2 - money) / (3.0 * cubic * root**2 + 2.0 * linear * root)
    return root * root

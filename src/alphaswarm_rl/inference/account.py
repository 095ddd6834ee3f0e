"""An account from outside, as the parts of a policy see it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from alphaswarm_rl.core.errors import OrderError, nearest
from alphaswarm_rl.core.types import Array
from alphaswarm_rl.core.view import ARRAYS, View
from alphaswarm_rl.market import kernels_numba as kernels

if TYPE_CHECKING:
    from alphaswarm_rl.market.market import Market

#: Cost rates of a mark that costs nothing.
_FREE = np.zeros(8)
#: What an account may leave out, and how it is given.
_GIVEN_AS = {
    "peak": "peak=, the highest equity so far",
    "average_cost": "average_cost=, the average price of what is held by symbol",
    "last": "bars_left=, how many bars the account still trades",
    "value_before": "value_before=, the equity a bar ago",
    "next_open": "next_open=, the open of the next bar by symbol",
}


@dataclass(frozen=True)
class Account:
    """What is held when a decision is made. What is left out is refused by name where some part of the policy reads it.

    Attributes:
        cash: Money.
        positions: Units by symbol, negative where short; symbols that are not named are not held.
        peak: The highest equity so far.
        value_before: The equity at the close a bar ago.
        average_cost: Average price of the units held, by symbol.
        initial_cash: What the value is compared with; None: what an episode of the training began with.
        bars_left: How many more bars the account trades.
        next_open: The open of the next bar by symbol, of every asset that has a price; of one that does not open, its
            last close. Policies of the fill policy `cheat_on_open` see it.
    """

    cash: float
    positions: Mapping[str, float] = field(default_factory=dict)
    peak: float | None = None
    value_before: float | None = None
    average_cost: Mapping[str, float] | None = None
    initial_cash: float | None = None
    bars_left: int | None = None
    next_open: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        positions = {f"position of {symbol}": units for symbol, units in self.positions.items()}
        costs = {f"average cost of {symbol}": price for symbol, price in (self.average_cost or {}).items()}
        above_0 = {f"next open of {symbol}": price for symbol, price in (self.next_open or {}).items()}
        above_0 |= _known({"peak": self.peak, "initial cash": self.initial_cash})
        for name, value in {
            **_known({"cash": self.cash, "value_before": self.value_before}),
            **positions,
            **costs,
        }.items():
            _refuse_other_than_finite(name, value)
        for name, value in above_0.items():
            _refuse_other_than_finite(name, value)
            if value <= 0:
                raise OrderError(f"the account's {name}", f"it is {value}", "Give a number above 0.")
        if self.bars_left is not None and self.bars_left < 1:
            raise OrderError("the account's bars_left", f"it is {self.bars_left}", "Give at least 1.")

    def units(self, assets: tuple[str, ...]) -> Array:
        """Units of each asset, (A,)."""
        return _by_asset(self.positions, assets, "position")

    def costs(self, assets: tuple[str, ...]) -> Array | None:
        """Average prices of what is held, (A,)."""
        return None if self.average_cost is None else _by_asset(self.average_cost, assets, "average cost")

    def opens(self, assets: tuple[str, ...], close: Array) -> Array | None:
        """Opens of the next bar, (A,); NaN of assets without a price.

        Args:
            assets: The symbols.
            close: Their last closes, NaN or 0 where there is none.
        """
        if self.next_open is None:
            return None
        opens = _by_asset(self.next_open, assets, "next open")
        opens[opens == 0] = np.nan
        lacking = np.flatnonzero(np.isnan(opens) & (close > 0))
        if len(lacking):
            raise OrderError(
                f"the next open of {assets[lacking[0]]!r}",
                "the others are there, and it is not",
                "Give it; of an asset that does not open, its last close.",
            )
        return opens


def _known(values: Mapping[str, float | None]) -> dict[str, float]:
    return {name: value for name, value in values.items() if value is not None}


def _refuse_other_than_finite(name: str, value: float) -> None:
    if not math.isfinite(value):
        raise OrderError(f"the account's {name}", f"it is {value}", "Give a finite number.")


def _by_asset(values: Mapping[str, float], assets: tuple[str, ...], what: str) -> Array:
    for symbol in values:
        if symbol not in assets:
            raise OrderError(
                f"the {what} of {symbol!r}", "the policy trades no such symbol", nearest(str(symbol), assets)
            )
    return np.array([float(values.get(symbol, 0.0)) for symbol in assets])


class AccountView(View):
    """A view of one account of which not everything is known; whoever reads what is not is refused by name.

    Attributes:
        reader: What is reading now, for the error.
        next_open: Opens of the next bar, (A,).
    """

    __slots__ = ("next_open", "reader")
    reader: str
    next_open: Array

    def __getattr__(self, name: str) -> NoReturn:
        # Asked only where the array was never set.
        if name not in (*ARRAYS, "next_open"):
            raise AttributeError(name)
        reader = getattr(self, "reader", "the policy")
        if name in _GIVEN_AS:
            raise OrderError(
                f"the account's {name}", f"{reader} reads it, and nobody said it", f"Give {_GIVEN_AS[name]}."
            )
        raise OrderError(
            f"the account's {name}",
            f"{reader} reads it, and one look at an account does not say it",
            "Decide bar by bar with a DecisionStream, from the first bar on.",
        )

    @classmethod
    def of_bars(cls, market: Market, bar: int, start: int) -> AccountView:
        """A view of which only the bars are known."""
        view = cls.__new__(cls)
        view.xp, view.market, view.n = market.backend.xp, market, 1
        view.bar, view.start = np.array([bar]), np.array([start])
        view.reader = "the policy"
        return view

    @classmethod
    def of_account(cls, account: Account, market: Market, *, bar: int, start: int, initial_cash: float) -> AccountView:
        """The account at the close of a bar.

        Args:
            account: What it holds.
            market: The bars.
            bar: The bar.
            start: The bar of the first decision.
            initial_cash: What an episode of the training began with.
        """
        view = cls.of_bars(market, bar, start)
        assets = market.panel.assets
        view.initial_cash = initial_cash if account.initial_cash is None else account.initial_cash
        view.cash = np.array([float(account.cash)])
        view.positions = account.units(assets)[None]
        unknown = np.flatnonzero((view.positions[0] != 0) & ~(market.close[bar] > 0))
        if len(unknown):
            raise OrderError(
                f"the position of {assets[unknown[0]]!r}",
                "it has no price at the bar of the decision",
                "Give its bars.",
            )
        view.value, carry, called = np.empty(1), np.empty(1), np.empty(1, np.bool_)
        # The kernel that marks the accounts of environments: another order of sums would differ in the last bit. It is
        # given a row of its own, for it is compiled anew for arrays that cannot be written to.
        marks = (np.zeros(1, np.int64), market.close[bar][None].copy(), _FREE, 0.0)
        kernels.mark(0, 1, view.cash, view.positions, *marks, view.value, carry, called)
        if account.peak is not None:
            view.peak = np.array([max(float(account.peak), view.value[0])])
        if account.value_before is not None:
            view.value_before = np.array([float(account.value_before)])
        costs = account.costs(assets)
        if costs is not None:
            view.average_cost = costs[None]
        opens = account.opens(assets, market.close[bar])
        if opens is not None:
            view.next_open = opens
        if account.bars_left is not None:
            view.last = view.bar + account.bars_left
        return view

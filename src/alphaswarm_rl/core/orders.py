"""What passes from a policy to whoever trades: target weights, and the orders that are made of them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import InitVar, dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from alphaswarm_rl.core.errors import OrderError, nearest
from alphaswarm_rl.core.types import Array

Side = Literal["buy", "sell"]
OrderType = Literal["market", "limit", "stop"]
TimeInForce = Literal["day", "gtc", "at_open", "at_close"]

#: Weights may sum to this much more than they should: rounding.
_ROUNDING = 1e-9
#: Characters of a client order id: what every broker takes.
_ID_LENGTH = 32


@dataclass(frozen=True, eq=False)
class TargetWeights:
    """Parts of the equity that each asset shall have; what they leave is cash. Checked when made, and never changed.

    Attributes:
        assets: The symbols.
        weights: One finite number per symbol, float64, negative where short; cannot be written to.
        timestamp: The bar of the decision, datetime64[ns], UTC.
        leverage: The largest sum of absolute weights that is no mistake.
    """

    assets: tuple[str, ...]
    weights: Array
    timestamp: np.datetime64
    leverage: InitVar[float] = 1.0

    def __post_init__(self, leverage: float) -> None:
        assets, weights = tuple(self.assets), np.array(self.weights, np.float64)
        if weights.shape != (len(assets),):
            raise OrderError(
                f"target weights of shape {weights.shape}", f"there are {len(assets)} symbols", "Give one per symbol."
            )
        _refuse_repeated(assets)
        for symbol, weight in zip(assets, weights.tolist(), strict=True):
            if not math.isfinite(weight):
                raise OrderError(
                    f"the target weight of {symbol}", f"it is {weight}, not a finite number", "Mend the policy."
                )
        total = float(np.abs(weights).sum())
        if total > leverage + _ROUNDING:
            raise OrderError(
                f"target weights whose absolute values sum to {total:.6g}",
                f"the account carries at most {leverage:.6g}",
                "Scale them down, or give the account margin.",
            )
        stamp = in_nanoseconds(self.timestamp)
        if np.isnat(stamp):
            raise OrderError("the timestamp of target weights", "it is no time", "Give the bar's time.")
        weights.flags.writeable = False
        for name, value in (("assets", assets), ("weights", weights), ("timestamp", stamp)):
            object.__setattr__(self, name, value)

    @cached_property
    def sha256(self) -> str:
        """The hash of symbols, weights and time: equal targets have equal ones."""
        digest = hashlib.sha256(b"alphaswarm-rl/target-weights/1\n")
        digest.update("\n".join(self.assets).encode() + b"\n" + str(self.timestamp).encode() + b"\n")
        # Minus zero is zero.
        digest.update((self.weights + 0.0).astype("<f8").tobytes())
        return digest.hexdigest()

    def weight(self, symbol: str) -> float:
        """The weight of a symbol."""
        if symbol not in self.assets:
            raise OrderError(f"the symbol {symbol!r}", "the targets have none", nearest(symbol, self.assets))
        return float(self.weights[self.assets.index(symbol)])

    def as_dict(self) -> dict[str, float]:
        """Weights by symbol."""
        return dict(zip(self.assets, self.weights.tolist(), strict=True))


@dataclass(frozen=True)
class Price:
    """The last known price of an asset.

    Attributes:
        value: Money per unit.
        at: When it was known, datetime64[ns], UTC.
    """

    value: float
    at: np.datetime64


@dataclass(frozen=True)
class DomainOrder:
    """One order as the platform means it, whatever broker or engine it goes to.

    Attributes:
        client_id: Its name, the same whenever the same decision is made again: no retry doubles an order.
        symbol: What is traded.
        side: Whether it is bought or sold.
        quantity: Units, positive.
        type: `market`; `limit` at `limit_price` or better; `stop`: a market order once `stop_price` is reached.
        time_in_force: For the day, until cancelled, at the next open, at the next close.
        limit_price: Money per unit; of limit orders.
        stop_price: Money per unit; of stop orders.
        take_profit: Price of the limit leg that closes what the order opens; None: it has none.
        stop_loss: Price of the stop leg that closes it; None: it has none.
        reason: Why it is made.
    """

    client_id: str
    symbol: str
    side: Side
    quantity: float
    type: OrderType = "market"
    time_in_force: TimeInForce = "day"
    limit_price: float | None = None
    stop_price: float | None = None
    take_profit: float | None = None
    stop_loss: float | None = None
    reason: str = "rebalance"

    def __post_init__(self) -> None:
        what = f"the order to {self.side} {self.symbol}"
        for name in ("quantity", "limit_price", "stop_price", "take_profit", "stop_loss"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise OrderError(f"{what}: {name} = {value!r}", "it is not a positive number", "Give one.")
        for name, of in (("limit_price", "limit"), ("stop_price", "stop")):
            if (getattr(self, name) is not None) != (self.type == of):
                raise OrderError(
                    f"{what}, of type {self.type!r}",
                    f"{name} belongs to orders of type {of!r}, and they need it",
                    "Give both or neither.",
                )

    @property
    def signed_quantity(self) -> float:
        """Units, negative when sold."""
        return self.quantity if self.side == "buy" else -self.quantity


@dataclass(frozen=True)
class Skipped:
    """An asset whose order is not made, or is less than its weight asks for.

    Attributes:
        symbol: Which.
        reason: Why, in one word.
        detail: The same in a sentence; empty where the word says it.
    """

    symbol: str
    reason: str
    detail: str = ""


@dataclass(frozen=True)
class OrderResult:
    """What became of target weights.

    Attributes:
        target: The hash of the targets.
        orders: What is to be sent, reductions first.
        skipped: What is not, or not in full.
        aborted: Why nothing may be sent, in one word; None: it may.
        detail: The same in a sentence.
    """

    target: str
    orders: tuple[DomainOrder, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    aborted: str | None = None
    detail: str = ""


def in_nanoseconds(moment: np.datetime64) -> np.datetime64:
    """The moment as panels have theirs, datetime64[ns]."""
    found: np.datetime64 = np.datetime64(moment).astype("datetime64[ns]")
    return found


def client_order_id(run_id: str, bar: np.datetime64, symbol: str, target: float) -> str:
    """The name of an order: a hash of run, bar, symbol and target.

    Args:
        run_id: The run whose policy decided.
        bar: The bar of the decision.
        symbol: What is traded.
        target: What it is to have: a weight, or units where the action gives units.
    """
    parts = (run_id, str(in_nanoseconds(bar)), symbol, (target + 0.0).hex())
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:_ID_LENGTH]


def _refuse_repeated(assets: Sequence[str]) -> None:
    seen: set[str] = set()
    for symbol in assets:
        if not isinstance(symbol, str) or not symbol or symbol in seen:
            why = "it is there twice" if isinstance(symbol, str) and symbol else "it is no text"
            raise OrderError(f"the symbol {symbol!r} of target weights", why, "Name each asset once.")
        seen.add(symbol)

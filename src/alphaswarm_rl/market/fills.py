"""When an order is filled, and at which price.

A decision belongs to a bar t and has seen what is stamped <= t. The account is then marked at the close of bar t + 1,
whatever the policy. Two policies let the decision see the price it gets; a run that uses one is marked optimistic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeVar

from alphaswarm_rl.core.errors import BookError, DataError, nearest

T = TypeVar("T")


@dataclass(frozen=True)
class FillPolicy:
    """Where the fill price of a decision at bar t is found.

    Attributes:
        name: What a spec calls it.
        price: Which prices fill.
        lag: Bars from the decision to the fill: the price is that of bar t + lag.
        shows_next_open: Whether the decision is shown the open of bar t + 1.
        optimistic: Whether the decision has seen the price it is filled at.
    """

    name: str
    price: Literal["open", "close"]
    lag: int
    shows_next_open: bool = False
    optimistic: bool = False


NEXT_OPEN = FillPolicy("next_open", "open", 1)
NEXT_CLOSE = FillPolicy("next_close", "close", 1)
SAME_CLOSE = FillPolicy("same_close", "close", 0, optimistic=True)
CHEAT_ON_OPEN = FillPolicy("cheat_on_open", "open", 1, shows_next_open=True, optimistic=True)
FILL_POLICIES = {policy.name: policy for policy in (NEXT_OPEN, NEXT_CLOSE, SAME_CLOSE, CHEAT_ON_OPEN)}


def fill_policy(name: str) -> FillPolicy:
    """The policy of that name."""
    if name not in FILL_POLICIES:
        raise BookError(f"fill policy {name!r}", "there is none of that name", nearest(name, FILL_POLICIES))
    return FILL_POLICIES[name]


def fill_prices(policy: FillPolicy, opens: T | None, closes: T) -> T:
    """The prices that the policy fills at, indexed by the bar of the fill (decision bar + lag)."""
    if policy.price == "close":
        return closes
    if opens is None:
        raise DataError(
            "column 'open'",
            f"the fill policy {policy.name!r} fills at opens, and the data has none",
            "Give opens, or choose the fill policy 'next_close'.",
        )
    return opens

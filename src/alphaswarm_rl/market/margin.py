"""What an account may hold for its equity."""

from __future__ import annotations

from dataclasses import dataclass

from alphaswarm_rl.core.errors import BookError
from alphaswarm_rl.market.costs import CostModel


@dataclass(frozen=True)
class Margin:
    """Equity needed for what is held, as fractions of gross exposure (the sum of the positions' absolute values).

    A cash account is the special case in which all of it must be paid for and nothing may be short.

    Attributes:
        initial: Fraction that must be there after a trade.
        maintenance: Fraction below which the account is called and its positions are sold by force.
        short: Whether positions may be negative.
    """

    initial: float = 0.5
    maintenance: float = 0.25
    short: bool = True

    def __post_init__(self) -> None:
        if not (0 <= self.maintenance <= self.initial <= 1 and self.initial > 0):
            raise BookError(
                f"margin {self.initial!r} initial, {self.maintenance!r} maintenance",
                "0 <= maintenance <= initial <= 1 and initial > 0 must hold",
                "The usual ones are 0.5 and 0.25.",
            )

    @property
    def lends(self) -> bool:
        """Whether the account can owe anything."""
        return self.short or self.initial < 1

    def check_costs(self, costs: CostModel) -> None:
        """Refuses funding on an account that cannot owe: its cash would turn negative."""
        if costs.funding_rate != 0 and not self.lends:
            raise BookError(
                f"cost funding_rate = {costs.funding_rate!r}",
                "a cash account cannot owe it",
                "Use a margin account, Margin(initial=0.5, maintenance=0.25), or set it to 0.",
            )


CASH_ACCOUNT = Margin(initial=1.0, maintenance=0.0, short=False)

"""What an evaluation of a trading policy leaves for gates: its returns by bar, beside those of equal weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Self

from alphaswarm_rl.core.types import JsonMapping, JsonObject


@dataclass(frozen=True)
class AccountEvidence:
    """How an account did bar by bar, and how equal weights did on the same bars at the same costs.

    Cash, the other yardstick, earns nothing: its returns are 0.

    Attributes:
        bars: Bars that were played; a bar that several episodes played counts once.
        periods_per_year: Periods of the returns below in a year; a period is one bar, or several where there are many.
        returns: The account's return in each period, the mean over episodes that repeat no earlier one.
        equal_weight: The return of equal weights of all assets that can be traded, restored on every bar, after costs.
        max_drawdown: The deepest fall of any of the episodes, 0 or less.
        profits: The mean profit of an episode by asset, in money and before costs.
    """

    bars: int
    periods_per_year: float
    returns: tuple[float, ...]
    equal_weight: tuple[float, ...]
    max_drawdown: float
    profits: Mapping[str, float]

    def to_json(self) -> JsonObject:
        """The evidence as plain data."""
        return {**asdict(self), "returns": list(self.returns), "equal_weight": list(self.equal_weight)}

    @classmethod
    def from_json(cls, data: JsonMapping) -> Self:
        """The evidence that `to_json` wrote."""
        return cls(**{**data, "returns": tuple(data["returns"]), "equal_weight": tuple(data["equal_weight"])})

"""What an account may hold and lose: the one `RiskLimits` of stages, orders and the kill switch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field, model_validator

from alphaswarm_rl.core.model import FrozenModel

Severity = Literal["warning", "critical"]

#: What other documents call the limits.
OTHER_NAMES = {
    "max_position_pct": "max_position",
    "max_concentration_pct": "max_concentration",
    "max_turnover_pct": "max_turnover",
    "max_gross_exposure": "max_gross",
    "max_net_exposure": "max_net",
    "max_daily_loss_pct": "max_daily_loss",
    "max_drawdown_pct": "max_drawdown",
}
#: Limits that close everything once they are reached; the others cut what is above them.
CLOSING = ("max_daily_loss", "max_drawdown")
#: What rounding may add to a sum of weights, or take from a loss.
TOLERANCE = 1e-12


class LimitNames(FrozenModel):
    """A model whose limits may be called what other documents call them."""

    @model_validator(mode="before")
    @classmethod
    def _by_our_names(cls, data: object) -> Any:
        if not isinstance(data, Mapping):
            return data
        for other, name in OTHER_NAMES.items():
            if name in cls.model_fields and other in data and name in data:
                raise ValueError(f"{other} and {name} are one limit: keep one of them")
        renamed = {other: name for other, name in OTHER_NAMES.items() if name in cls.model_fields}
        return {renamed.get(key, key): value for key, value in data.items()}


class RiskLimits(LimitNames):
    """Limits of weights and losses, as parts of the equity; null is no limit."""

    max_position: float | None = Field(None, gt=0, description="Largest weight of one asset, long or short.")
    max_gross: float | None = Field(None, gt=0, description="Largest sum of weights, shorts counted as longs.")
    max_net: float | None = Field(None, ge=0, description="Largest difference of longs and shorts.")
    max_concentration: float | None = Field(
        None, gt=0, le=1, description="Largest part of the sum of weights that one asset has, shorts counted as longs."
    )
    max_turnover: float | None = Field(
        None, ge=0, description="Largest sum of increases in one decision; reductions always pass."
    )
    max_daily_loss: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="Loss since the day before's last bar at which all is sold for the rest of the day.",
    )
    max_drawdown: float | None = Field(
        None, gt=0, lt=1, description="Distance below the highest equity at which everything is sold."
    )
    cooldown_bars: int | None = Field(
        None, ge=1, description="Decisions for which a drawdown keeps everything sold; null: to the episode's end."
    )

    def set_limits(self) -> dict[str, float]:
        """The limits that are not null, by name; the cooldown is none."""
        named = ((name, getattr(self, name)) for name in OTHER_NAMES.values())
        return {name: value for name, value in named if value is not None}


def tightest(limits: Iterable[RiskLimits]) -> RiskLimits:
    """Of every limit the smallest; of cooldowns the longest, where a drawdown without one never ends."""
    every = list(limits)
    found: dict[str, float] = {}
    for one in every:
        for name, value in one.set_limits().items():
            found[name] = min(value, found.get(name, value))
    waits = [one.cooldown_bars for one in every if one.max_drawdown is not None]
    cooldown = None if None in waits else max((wait for wait in waits if wait is not None), default=None)
    return RiskLimits(**found, cooldown_bars=cooldown)


def breaks(kind: str, value: float, limit: float) -> bool:
    """Whether a value breaks a limit: it reaches one that closes everything, or is above another."""
    return value >= limit - TOLERANCE if kind in CLOSING else value > limit + TOLERANCE


@dataclass(frozen=True)
class LimitBreach:
    """A limit that was reached, so that something was cut or closed.

    Attributes:
        kind: The limit, a field of `RiskLimits`.
        message: What happened, in words.
        value: What was found.
        limit: What is allowed.
        severity: `critical` where everything was closed, `warning` where something was cut.
    """

    kind: str
    message: str
    value: float
    limit: float
    severity: Severity

    @classmethod
    def of(cls, kind: str, value: float, limit: float) -> LimitBreach:
        """The breach of a limit."""
        if kind in CLOSING:
            return cls(
                kind, f"{_WORDS[kind]} {value:.4g} reached {limit:.4g}: everything is sold", value, limit, "critical"
            )
        return cls(kind, f"{_WORDS[kind]} {value:.4g} was cut to {limit:.4g}", value, limit, "warning")


def breaches_of(
    limits: Iterable[tuple[str, float]], measured: Iterable[Iterable[float]]
) -> list[tuple[LimitBreach, ...]]:
    """The breaches in each row of what was measured, (n, limits); the limits are in the order of the columns."""
    every = list(limits)
    return [
        tuple(
            LimitBreach.of(kind, float(value), limit)
            for (kind, limit), value in zip(every, row, strict=True)
            if breaks(kind, value, limit)
        )
        for row in measured
    ]


_WORDS = {
    "max_position": "a weight of",
    "max_gross": "gross exposure of",
    "max_net": "net exposure of",
    "max_concentration": "a concentration of",
    "max_turnover": "increases of",
    "max_daily_loss": "a daily loss of",
    "max_drawdown": "a drawdown of",
}

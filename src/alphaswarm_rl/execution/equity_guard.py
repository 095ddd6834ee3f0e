"""Limits on an account's losses that engage the kill switch by themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from alphaswarm_rl.core.errors import OrderError, RunError
from alphaswarm_rl.core.risk_limits import TOLERANCE, LimitBreach, RiskLimits, breaks


class KillSwitch(Protocol):
    """Who halts: the ledger."""

    def engage(self, scope: str, reason: str, actor: str) -> object:
        """Halts a scope (`platform`, `bot:NAME` or a run) until it is released."""


@dataclass(frozen=True)
class EquityMarks:
    """What losses are measured from; a guard that is made anew goes on from these.

    Attributes:
        peak: The highest equity so far.
        day: The day, in UTC, of the last bar that was seen.
        opened: The equity that the day began with: the last one of the day before.
        last: The equity at the last bar.
    """

    peak: float
    day: np.datetime64
    opened: float
    last: float


class EquityGuard:
    """Watches an account's equity bar by bar, and engages the kill switch where a loss reaches its limit.

    A limit that is reached counts as broken. The switch is engaged once and stays, whatever the equity does; after its
    release `rearm` measures losses anew. An error of the switch is the caller's: who cannot halt must not go on.

    Args:
        limits: `max_daily_loss`, of a day in UTC since the last bar of the day before, and `max_drawdown`, from the
            highest equity; without either it watches nothing and is refused.
        switch: What is engaged.
        scope: What is halted: `platform`, `bot:NAME` or a run.
        actor: Who says so in the log.
        marks: What losses are measured from; None: from the first equity that is seen.
    """

    def __init__(
        self,
        limits: RiskLimits,
        switch: KillSwitch,
        *,
        scope: str,
        actor: str = "equity guard",
        marks: EquityMarks | None = None,
    ) -> None:
        if limits.max_daily_loss is None and limits.max_drawdown is None:
            raise OrderError(
                "the guard of the equity", "neither max_daily_loss nor max_drawdown is set", "Set one, or leave it out."
            )
        self._limits, self._switch, self._scope, self._actor = limits, switch, scope, actor
        self.marks = marks
        self.engaged: LimitBreach | None = None

    def watch(self, at: np.datetime64, equity: float) -> LimitBreach | None:
        """Takes in the equity at a bar; gives the limit that it breaks, once the switch is engaged for it.

        Args:
            at: The bar's time, UTC; no earlier than the one before.
            equity: The account's value at it.
        """
        if not np.isfinite(equity):
            raise OrderError(f"the equity at {at}", f"it is {equity}", "Mend what values the account.")
        day = np.datetime64(at).astype("datetime64[D]")
        before = self.marks
        if before is None:
            before = EquityMarks(equity, day, equity, equity)
        elif day < before.day:
            raise OrderError(f"the equity at {at}", f"the last one was of {before.day}", "Give bars in their order.")
        opened = before.opened if day == before.day else before.last
        self.marks = EquityMarks(max(before.peak, equity), day, opened, equity)
        breach = self._breach(self.marks)
        if breach is not None and self.engaged is None:
            self._switch.engage(self._scope, breach.message, self._actor)
            self.engaged = breach
        return breach

    def refuse(self, at: np.datetime64, equity: float) -> None:
        """Watches, and refuses to go on once the switch is engaged; arguments as for `watch`.

        Raises:
            RunError: A loss has reached its limit, now or before.
        """
        self.watch(at, equity)
        if self.engaged is not None:
            remedy = "Look at the account. Then release the switch, rl halt --release, and rearm the guard."
            raise RunError(f"the kill switch of {self._scope}", f"losses engaged it: {self.engaged.message}", remedy)

    def rearm(self) -> None:
        """Measures losses from the last equity on, after the switch was released."""
        self.engaged = None
        if self.marks is not None:
            last = self.marks.last
            self.marks = EquityMarks(last, self.marks.day, last, last)

    def _breach(self, marks: EquityMarks) -> LimitBreach | None:
        for kind, limit, start, since in (
            ("max_daily_loss", self._limits.max_daily_loss, marks.opened, "the day before"),
            ("max_drawdown", self._limits.max_drawdown, marks.peak, "its highest value"),
        ):
            loss = 1.0 - marks.last / start if start > 0 else 1.0
            if limit is not None and breaks(kind, loss + TOLERANCE, limit):
                message = f"{kind}: the account lost {loss:.2%} since {since}, and the limit is {limit:.2%}"
                return LimitBreach(kind, message, loss, limit, "critical")
        return None

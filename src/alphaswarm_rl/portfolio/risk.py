"""Stages that limit risk: each sets some of `RiskLimits`, and keeps what those before it set.

A limit on weights cuts what is above it, and what is cut is cash. A limit on losses sells everything once it is
reached. Weights only become smaller, so that no stage can break what another has kept but for shares and differences of
weights, `max_concentration` and `max_net`: those a stage takes over from the ones before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy

from pydantic import Field, model_validator

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.kinds import PortfolioStage
from alphaswarm_rl.core.risk_limits import TOLERANCE, LimitNames, RiskLimits, tightest
from alphaswarm_rl.core.types import BackendArray, NamedArrays
from alphaswarm_rl.core.view import ArrayFunctions, Panel, View
from alphaswarm_rl.portfolio import limits as rules
from alphaswarm_rl.portfolio.rebalance import dates

#: As many decisions as no episode has.
_ALWAYS = 2**62
#: Limits that making weights smaller can break.
_KEPT = ("max_concentration", "max_net")


class LimitConfig(ComponentConfig, LimitNames):
    """Parameters that are limits."""


class RiskStage(PortfolioStage):
    """The base of stages that limit risk; a subclass says which limits."""

    rl_category = "risk"
    role = "risk"

    def __init__(self, config: ComponentConfig | None = None) -> None:
        super().__init__(config)
        self._limits = self.limits()
        self._weights = self._limits

    def limits(self) -> RiskLimits:
        """Its limits: those among its parameters."""
        return RiskLimits(**self.config.model_dump())

    def after(self, earlier: Sequence[PortfolioStage]) -> RiskStage:
        """The stage that also keeps what those before it limit, where its own cuts could break it."""
        every = [found for stage in earlier if (found := stage.limits()) is not None]
        together = tightest([*every, self._limits])
        stage = copy(self)
        stage._weights = self._limits.model_copy(update={name: getattr(together, name) for name in _KEPT})
        return stage

    def init(self, n: int, xp: ArrayFunctions) -> NamedArrays:
        """What losses are counted from, and for how long everything stays sold."""
        found: NamedArrays = {}
        if self._limits.max_daily_loss is not None:
            found["day"] = xp.full(n, -1, dtype=xp.int64)
            found["opened"] = xp.zeros(n, dtype=xp.float64)
            found["stopped"] = xp.zeros(n, dtype=xp.bool_)
        if self._limits.max_drawdown is not None:
            found["high"] = xp.zeros(n, dtype=xp.float64)
            found["wait"] = xp.zeros(n, dtype=xp.int64)
        return found

    def prepare(self, panel: Panel) -> NamedArrays:
        """The date of each bar, where a loss is counted by the day."""
        return {} if self._limits.max_daily_loss is None else {"date": dates(panel)}

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Cuts, or sells everything."""
        xp, limits = view.xp, self._limits
        rules.limit(view, self._weights, out)
        if limits.max_daily_loss is not None:
            out[...] = xp.where(self._stop_for_the_day(view, state, limits.max_daily_loss)[:, None], 0.0, out)
        if limits.max_drawdown is not None:
            out[...] = xp.where(self._stop_for_drawdown(view, state, limits.max_drawdown)[:, None], 0.0, out)

    def measured(self, view: View, state: NamedArrays, weights: BackendArray) -> BackendArray:
        """What its own limits are compared with."""
        xp = view.xp
        found: dict[str, Callable[[], BackendArray]] = {
            "max_position": lambda: xp.max(xp.abs(weights), axis=-1),
            "max_gross": lambda: rules.gross(xp, weights),
            "max_net": lambda: rules.net(xp, weights),
            "max_concentration": lambda: rules.concentration(xp, weights),
            "max_turnover": lambda: rules.increases(xp, weights, view.weights),
            "max_daily_loss": lambda: self._daily_loss(view, state)[0],
            "max_drawdown": lambda: xp.where(state["wait"] > 0, 0.0, self._drawdown(view, state)[0]),
        }
        return xp.stack([found[name]() for name in self._limits.set_limits()], axis=-1)

    def _stop_for_the_day(self, view: View, state: NamedArrays, most: float) -> BackendArray:
        loss, opened, new = self._daily_loss(view, state)
        stopped = (loss >= most - TOLERANCE) | (state["stopped"] & ~new)
        state["day"][...], state["opened"][...] = state["date"][view.bar], opened
        state["stopped"][...] = stopped
        return stopped

    def _daily_loss(self, view: View, state: NamedArrays) -> tuple[BackendArray, BackendArray, BackendArray]:
        """The loss of the day so far as a part of what it began with, what it began with, and whether it is new."""
        xp = view.xp
        new = state["date"][view.bar] != state["day"]
        opened = xp.where(new, view.value_before, state["opened"])
        return _loss(xp, view.value, opened), opened, new

    def _stop_for_drawdown(self, view: View, state: NamedArrays, most: float) -> BackendArray:
        xp, limits = view.xp, self._limits
        drawdown, high = self._drawdown(view, state)
        waiting = state["wait"] > 0
        stopped = waiting | (drawdown >= most - TOLERANCE)
        cooldown = _ALWAYS if limits.cooldown_bars is None else limits.cooldown_bars
        # This decision is the first of them.
        left = xp.where(waiting, state["wait"], xp.where(stopped, cooldown, 1)) - 1
        state["wait"][...] = left
        # After the cooldown the highest equity is counted anew.
        state["high"][...] = xp.where(stopped & (left == 0), 0.0, high)
        return stopped

    def _drawdown(self, view: View, state: NamedArrays) -> tuple[BackendArray, BackendArray]:
        high = view.xp.maximum(state["high"], view.value)
        return _loss(view.xp, view.value, high), high


def _loss(xp: ArrayFunctions, value: BackendArray, before: BackendArray) -> BackendArray:
    """How much is gone of what was there before; all of it where nothing was."""
    return 1.0 - xp.where(before > 0, value, 0.0) / xp.where(before > 0, before, 1.0)


class PositionCapRiskOverlay(RiskStage):
    """No weight above a limit, long or short; what is above it is cash and goes to no other asset."""

    rl_alias = "position_cap"

    class Config(LimitConfig):
        """Parameters of the position cap."""

        max_position: float = Field(0.3, gt=0, description="Largest weight of one asset, long or short.")


class GrossExposureRiskOverlay(RiskStage):
    """No more invested than a limit, longs and shorts together: all weights are scaled alike."""

    rl_alias = "gross_exposure"

    class Config(LimitConfig):
        """Parameters of the gross exposure."""

        max_gross: float = Field(1.0, gt=0, description="Largest sum of weights, shorts counted as longs.")


class NetExposureRiskOverlay(RiskStage):
    """Longs and shorts no further apart than a limit: the heavier side is scaled.

    Where that would break a `concentration` before it, both sides are.
    """

    rl_alias = "net_exposure"

    class Config(LimitConfig):
        """Parameters of the net exposure."""

        max_net: float = Field(1.0, ge=0, description="Largest difference of longs and shorts.")


class ConcentrationRiskOverlay(RiskStage):
    """No asset above a part of all that is invested: the largest weights are cut to one size.

    With a limit of 0.5 and one asset nothing can be held: it would be all of it.
    """

    rl_alias = "concentration"

    class Config(LimitConfig):
        """Parameters of the concentration."""

        max_concentration: float = Field(
            0.5, gt=0, le=1, description="Largest part of the sum of weights of one asset."
        )


class TurnoverRiskOverlay(RiskStage):
    """Positions grow by no more than a limit in one decision: increases are scaled alike, reductions always pass."""

    rl_alias = "turnover"

    class Config(LimitConfig):
        """Parameters of the turnover."""

        max_turnover: float = Field(0.5, ge=0, description="Largest sum of increases of weights in one decision.")


class DailyLossRiskOverlay(RiskStage):
    """Everything is sold for the rest of the day once the day has lost too much.

    A day is a date of UTC, and its loss is counted from the equity at the last bar of the day before. With one bar a
    day it is the loss of that bar, and the next decision is free again.
    """

    rl_alias = "daily_loss"

    class Config(LimitConfig):
        """Parameters of the daily loss."""

        max_daily_loss: float = Field(0.05, gt=0, lt=1, description="Loss of a day at which everything is sold.")


class DrawdownRiskOverlay(RiskStage):
    """Everything is sold once the equity is too far below its highest: to the episode's end, or for some decisions.

    After them the highest equity is counted anew.
    """

    rl_alias = "drawdown"

    class Config(LimitConfig):
        """Parameters of the drawdown."""

        max_drawdown: float = Field(0.2, gt=0, lt=1, description="Distance below the highest equity.")
        cooldown_bars: int | None = Field(
            None, ge=1, description="Decisions for which everything stays sold; null: to the episode's end."
        )


class StackedRiskOverlay(RiskStage):
    """All limits of one `RiskLimits` at once: whatever comes in, all of them hold for what goes out."""

    rl_alias = "risk_limits"
    rl_short_names = ("stacked",)

    class Config(ComponentConfig, RiskLimits):
        """Parameters of all limits; at least one is needed."""

        @model_validator(mode="after")
        def _has_a_limit(self) -> StackedRiskOverlay.Config:
            if not self.set_limits():
                raise ValueError("give at least one limit, such as max_position")
            return self

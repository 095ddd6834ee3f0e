"""The decider: what is to be traded, made of an agent's action and an account."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import cast

from alphaswarm_rl.core.contracts import Trade
from alphaswarm_rl.core.kinds import ActionSpec, PortfolioStage
from alphaswarm_rl.core.types import Array, BackendArray
from alphaswarm_rl.core.view import Panel, View
from alphaswarm_rl.market.market import Market
from alphaswarm_rl.market.part import Part
from alphaswarm_rl.market.stages import StagePart, extend_stages, stage_parts
from alphaswarm_rl.market.trade_log import copied

#: What the turbulence gate is called among the stages.
GATE = "turbulence_gate"


class Decider:
    """The action component, the portfolio stages and the turbulence gate: actions (n, ...) become targets.

    Targets are what `trade` says: weights or orders (n, A), or the position in one asset (n,), float64. It is what
    trading environments step, and needs none of them. `begin` starts the next episode of parts that remember, and
    `extend` goes on with more bars.

    Args:
        action: What the agent's output means.
        stages: What changes weights on their way, in the order of their roles.
        market: The bars.
        n: Number of accounts.
        turbulence_threshold: Turbulence from which on everything is sold and nothing bought; None: no gate.
        gates_first_bar: Whether the gate acts at an episode's first decision too.

    Attributes:
        space: The space of one account's action.
        trade: How targets are traded.
        action: The action component with its arrays.
        stages: The stages with theirs.
    """

    def __init__(
        self,
        action: ActionSpec,
        stages: Sequence[PortfolioStage],
        market: Market,
        n: int,
        *,
        turbulence_threshold: float | None = None,
        gates_first_bar: bool = True,
    ) -> None:
        self.space = action.space(market.panel)
        self.trade: Trade = action.trade(market.panel)
        self.action = Part(action, market, n)
        self.stages = stage_parts(stages, market, n)
        self._component = action
        self._threshold = turbulence_threshold
        self._gates_first_bar = gates_first_bar

    @property
    def stage_names(self) -> tuple[str, ...]:
        """What targets come from, in order: the action, each stage, and the gate where there is one."""
        aliases = (part.component.rl_alias for part in (self.action, *self.stages))
        return (*aliases, *(() if self._threshold is None else (GATE,)))

    @property
    def limits(self) -> tuple[tuple[str, float], ...]:
        """The limits that stages set, by name, in the order in which `decide` gives what is compared with them."""
        found = (part.stage.limits() for part in self.stages)
        return tuple(one for limits in found if limits is not None for one in limits.set_limits().items())

    def symbols(self, panel: Panel) -> tuple[str, ...]:
        """What each component of an action is about."""
        return self._component.symbols(panel)

    def decide(
        self,
        view: View,
        actions: BackendArray,
        out: BackendArray | None = None,
        trace: list[BackendArray] | None = None,
        measured: list[BackendArray] | None = None,
    ) -> BackendArray:
        """The targets of all accounts, written to `out`; None: to a new array.

        Args:
            view: The accounts.
            actions: One per account.
            out: Where the targets go.
            trace: Is given a copy of the targets after each of `stage_names`; None: nobody wants them.
            measured: Is given what each limiting stage compares with its limits, (n, limits); None: nobody wants it.
        """
        view.action = actions
        if out is None:
            shape = (view.n,) if self.trade.way == "position" else (view.n, view.market.assets)
            out = view.xp.zeros(shape, dtype=view.xp.float64)
        self.action.step(view, out)
        if trace is not None:
            trace.append(copied(out))
        for stage in self.stages:
            if measured is not None and stage.limited:
                measured.append(stage.measured(view, out))
            stage.step(view, out)
            if trace is not None:
                trace.append(copied(out))
        if self._threshold is not None:
            turbulence_gate(view, self.trade, self._threshold, out, first_bar=self._gates_first_bar)
            if trace is not None:
                trace.append(copied(out))
        return out

    def history(self, targets: BackendArray) -> dict[str, BackendArray]:
        """Targets (n, stages, ...) by the names of the stages; a name that is there again is numbered."""
        names, found = self.stage_names, {}
        for index, name in enumerate(names):
            before = names[:index].count(name)
            found[f"{name}_{before + 1}" if before else name] = targets[:, index]
        return found

    def exits(self, view: View) -> BackendArray:
        """For brackets: prices (n,) at which positions are closed inside the bar; NaN where they stay."""
        return self._component.exits(view, self.action.state)

    def stops(self, view: View) -> BackendArray:
        """For brackets: which of the exits that `exits` will give next are stops, (n,) bool."""
        return self._component.stops(view, self.action.state)

    @property
    def stops_orders(self) -> bool:
        """Whether the action sells by a stop of its own."""
        return self._component.stops_orders

    def stopped(self, view: View) -> BackendArray:
        """Which assets the action sells by its stop, whatever the agent wants, (n, A) bool."""
        return self._component.stopped(view, self.action.state)

    def legs(self, view: View) -> tuple[BackendArray, BackendArray] | None:
        """The stop and the take-profit, (n,) each, of positions opened at the last close; None where there are none."""
        return self._component.legs(view, self.action.state)

    def masks(self, view: View) -> BackendArray | None:
        """Which discrete actions are legal now, (n, actions); None where the action masks none."""
        return self._component.mask(view, self.action.state)

    def begin(self, rows: Array) -> None:
        """Starts an episode of some accounts."""
        for part in (self.action, *self.stages):
            part.begin(rows)

    def extend(self, market: Market) -> None:
        """Goes on with a market of more bars."""
        self.action.extend(market)
        extend_stages(self.stages, market)

    def holding(self, action: Part, stages: Sequence[Part]) -> Decider:
        """The same decider with parts that hold other arrays."""
        decider = copy(self)
        decider.action, decider.stages = action, tuple(cast(Sequence[StagePart], stages))
        return decider


def turbulence_gate(
    view: View, trade: Trade, threshold: float, targets: BackendArray, *, first_bar: bool = True
) -> None:
    """Sells everything and buys nothing where the market's turbulence has reached the threshold.

    A target of weights or of a position becomes 0, an order in shares becomes minus what is held. Without `first_bar`
    the first decision of an episode passes, whatever the market is like.
    """
    xp, turbulence = view.xp, view.market.turbulence
    stop = turbulence[view.bar] >= threshold
    if not first_bar:
        stop = stop & (view.bar > view.start)
    flat = -view.positions if trade.way == "shares" else xp.zeros_like(targets)
    targets[...] = xp.where(stop if trade.way == "position" else stop[:, None], flat, targets)

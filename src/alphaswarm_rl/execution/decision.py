"""What one account is to trade, decided at one bar: what passes from a policy to an engine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from alphaswarm_rl.core.contracts import Trade
from alphaswarm_rl.core.errors import OrderError, nearest
from alphaswarm_rl.core.orders import TargetWeights
from alphaswarm_rl.core.types import Array
from alphaswarm_rl.core.view import Panel, View
from alphaswarm_rl.market.decider import Decider


@dataclass(frozen=True, eq=False)
class Decision:
    """What one account is to trade; arrays have one row.

    Attributes:
        targets: What the request's `Trade` says: weights or orders (1, A), or the position in one asset (1,).
        trace: The targets after the action, after each stage and after the gate; the last is `targets`.
        stopped: Which assets are sold by a stop, (1, A); None where there are none.
        measured: What was compared with the limits of portfolio stages, (1, limits) for each stage that has some.
        decider: Who closes brackets inside the bar; None: nobody.
    """

    targets: Array
    trace: tuple[Array, ...] = ()
    stopped: Array | None = None
    measured: tuple[Array, ...] = ()
    decider: Decider | None = None

    @classmethod
    def of_weights(cls, weights: Array) -> Decision:
        """A decision for these weights (A,), or orders of units."""
        targets = np.array(weights, np.float64)[None]
        return cls(targets, (targets,))

    @classmethod
    def of_target(cls, target: TargetWeights, assets: Sequence[str]) -> Decision:
        """A decision for target weights; assets that they do not name get none.

        Args:
            target: The weights by symbol.
            assets: The symbols that are traded, in their order.
        """
        for symbol in target.assets:
            if symbol not in assets:
                raise OrderError(
                    f"the symbol {symbol!r} of target weights", "it is not traded", nearest(symbol, assets)
                )
        by_symbol = target.as_dict()
        return cls.of_weights(np.array([by_symbol.get(symbol, 0.0) for symbol in assets]))

    def check(self, trade: Trade, assets: int) -> None:
        """Refuses targets of another shape, and such as are no numbers."""
        shape = (1,) if trade.way == "position" else (1, assets)
        if self.targets.shape != shape:
            raise OrderError(
                f"a decision with targets of shape {self.targets.shape}", f"they are {shape}", "Give one per asset."
            )
        # One look at the sum tells whether any is not a number; a position may be left as it is by NaN.
        if trade.way != "position" and not math.isfinite(np.add.reduce(self.targets, axis=None)):
            asset = int(np.flatnonzero(~np.isfinite(self.targets[0]))[0])
            raise OrderError(
                f"the target of asset {asset}",
                f"it is {self.targets[0, asset]}, not a finite number",
                "Mend the strategy.",
            )


class GivenTargets(Decider):
    """The decider of a decision step whose decisions are made outside.

    Args:
        trade: What targets mean.
        stages: What they come from.
        action: What each component of an action is about; empty: the assets.
        stops: Whether decisions sell by stops of their own.
        limits: The limits that portfolio stages set, by name.

    Attributes:
        decision: The next decision; None: nothing is ordered, and brackets stay as they are.
    """

    def __init__(
        self,
        trade: Trade,
        stages: tuple[str, ...],
        *,
        action: tuple[str, ...] = (),
        stops: bool = False,
        limits: tuple[tuple[str, float], ...] = (),
    ) -> None:
        from gymnasium.spaces import Discrete

        self.space = Discrete(1)  # the one action: take what is given
        self.trade = trade
        self.decision: Decision | None = None
        self._names, self._action, self._stops, self._limits = stages, action, stops, limits
        self._brackets: Decider | None = None

    @property
    def stage_names(self) -> tuple[str, ...]:
        """What targets come from."""
        return self._names

    def symbols(self, panel: Panel) -> tuple[str, ...]:
        """What actions are about, or the assets."""
        return self._action or panel.assets

    @property
    def limits(self) -> tuple[tuple[str, float], ...]:
        """The limits that portfolio stages set, by name."""
        return self._limits

    def decide(
        self,
        view: View,
        actions: Array,
        out: Array | None = None,
        trace: list[Array] | None = None,
        measured: list[Array] | None = None,
    ) -> Array:
        """The decision's targets; where nothing is decided there are none."""
        decision = self.decision
        if decision is not None:
            self._brackets = decision.decider
        if out is None:
            out = np.empty((1,) if self.trade.way == "position" else (1, view.market.assets))
        out[...] = np.nan if decision is None else decision.targets
        if trace is not None:
            whole = decision is not None and len(decision.trace) == len(self._names)
            trace.extend(decision.trace if whole and decision is not None else [np.array(out)] * len(self._names))
        if measured is not None and self._limits:
            nothing = (np.full((1, len(self._limits)), np.nan),)
            measured.extend(nothing if decision is None or not decision.measured else decision.measured)
        return out

    def exits(self, view: View) -> Array:
        """Where a bracket closes the position inside the bar."""
        return np.full(1, np.nan) if self._brackets is None else np.asarray(self._brackets.exits(view))

    def stops(self, view: View) -> Array:
        """Which of those are stops."""
        return np.zeros(1, np.bool_) if self._brackets is None else np.asarray(self._brackets.stops(view))

    @property
    def stops_orders(self) -> bool:
        """Whether decisions sell by stops of their own."""
        return self._stops

    def stopped(self, view: View) -> Array:
        """Which assets those sell."""
        stopped = None if self.decision is None else self.decision.stopped
        return np.zeros((1, view.market.assets), np.bool_) if stopped is None else stopped

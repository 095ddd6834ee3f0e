"""One account on the decision step of the environments."""

from __future__ import annotations

import numpy as np

from alphaswarm_rl.core.view import View
from alphaswarm_rl.execution.decision import Decision, GivenTargets
from alphaswarm_rl.execution.engine import BacktestRequest, EngineSession
from alphaswarm_rl.market.decision_step_numpy import NumpyDecisionStep
from alphaswarm_rl.market.sizing_rules import NOTHING

#: What the decision step is given in place of an action.
_NOTHING = np.zeros(1, np.int64)


class NativeSession(EngineSession):
    """One account on the decision step.

    Args:
        request: Bars and rules.
        account: The account, changed in place.
    """

    def __init__(self, request: BacktestRequest, account: View) -> None:
        super().__init__(request, account)
        self._given = request.decider()
        self._step = _HoldingStep(account, self._given, request.costs, request.margin, request.sizing)

    def _play(self, decision: Decision | None) -> None:
        """One bar of trading."""
        step = self._step
        self._given.decision, step.logs = decision, self.logs
        step.step(_NOTHING)
        self.closed, self.log, self.sized = step.closed, step.log, step.sized


class _HoldingStep(NumpyDecisionStep):
    """The decision step, which orders nothing where nothing is decided."""

    decider: GivenTargets

    def _order(self) -> None:
        if self.decider.decision is not None:
            super()._order()
            return
        view = self.view
        for results in (view.cost, view.turnover, view.traded):
            results[...] = 0.0
        if self.sized is not None:
            self.sized.orders[...], self.sized.reasons[...] = 0.0, NOTHING
        if self.log is not None:
            self.log.ordered = view.traded.copy()

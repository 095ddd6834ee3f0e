"""The native engine: the decision step of the environments, one account at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alphaswarm_rl.core.contracts import EngineCapabilities
from alphaswarm_rl.execution.stepped_engine import SteppedEngine
from alphaswarm_rl.market.fills import FILL_POLICIES

if TYPE_CHECKING:
    from alphaswarm_rl.core.view import View
    from alphaswarm_rl.execution.engine import BacktestRequest
    from alphaswarm_rl.execution.native_session import NativeSession


class NativeEngine(SteppedEngine):
    """Event by event on the decision step that environments use: fills, costs, margin and corporate actions alike."""

    rl_alias = "native"
    rl_tags = ("native",)
    capabilities = EngineCapabilities(
        supports_rl_injection=True,
        fills=frozenset(FILL_POLICIES),
        trades=frozenset({"weights", "shares", "position"}),
        sizings=frozenset({"at_fill", "at_decision"}),
        margin=True,
        corporate_actions=True,
        impact=True,
        restores=True,
        exact=True,
    )

    def open(self, request: BacktestRequest, account: View) -> NativeSession:
        """An account on the decision step."""
        from alphaswarm_rl.execution.native_session import NativeSession

        self.check(request)
        return NativeSession(request, account)

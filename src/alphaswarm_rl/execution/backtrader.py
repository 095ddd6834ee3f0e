"""Backtrader as an engine: GPLv3, in an extra of its own, and imported by nobody else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alphaswarm_rl.core.contracts import EngineCapabilities
from alphaswarm_rl.core.errors import require
from alphaswarm_rl.execution.stepped_engine import SteppedEngine

if TYPE_CHECKING:
    from alphaswarm_rl.core.view import View
    from alphaswarm_rl.execution.backtrader_session import BacktraderSession
    from alphaswarm_rl.execution.engine import BacktestRequest


class BacktraderEngine(SteppedEngine):
    """Backtrader's broker and event loop: target weights as `order_target_percent`, filled at the next open.

    Weights become units when they are decided (`sizing: at_decision`), by the rules of the request; an order that the
    open makes too dear is filled as far as the cash reaches, in fractions. It needs the extra `backtest`, whose library
    is under the GPLv3.
    """

    rl_alias = "backtrader"
    rl_source = "backtrader"
    capabilities = EngineCapabilities(
        supports_rl_injection=True,
        fills=frozenset({"next_open", "cheat_on_open"}),
        trades=frozenset({"weights"}),
        sizings=frozenset({"at_decision"}),
    )

    def open(self, request: BacktestRequest, account: View) -> BacktraderSession:
        """An account at Backtrader's broker."""
        require("backtrader", extra="backtest")
        from alphaswarm_rl.execution.backtrader_session import BacktraderSession

        self.check(request)
        return BacktraderSession(request, account)

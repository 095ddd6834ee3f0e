"""The loop that plays a strategy on an engine, whose sessions are stepped from outside.

A strategy is a function of an account and a context: it looks at the bars so far and answers with a decision, or with
None to leave everything as it is. An engine opens a session for one account; each step takes a decision and moves the
account to the next bar. Where the engine can, the context holds the agent as `rl_agent`.

    account at bar t -> strategy(account, context) -> Decision -> session.step -> account at bar t + 1
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, TypeAlias

from alphaswarm_rl.core.errors import BookError
from alphaswarm_rl.core.kinds import BaseBacktestEngine

if TYPE_CHECKING:
    from alphaswarm_rl.core.view import View
    from alphaswarm_rl.execution.backtest_result import BacktestResult
    from alphaswarm_rl.execution.bridge import BaseRLAgentBridge
    from alphaswarm_rl.execution.decision import Decision
    from alphaswarm_rl.execution.engine import BacktestRequest

#: What a strategy finds beside its account; `rl_agent` is the agent, where the engine supports it.
Context: TypeAlias = "Mapping[str, object]"
Strategy: TypeAlias = "Callable[[View, Context], Decision | None]"

#: Under which name a strategy finds the agent.
RL_AGENT = "rl_agent"


class SteppedEngine(BaseBacktestEngine):
    """An engine whose sessions are stepped from outside: what all of ours are."""

    def run(
        self, request: BacktestRequest, strategy: Strategy | None = None, *, agent: BaseRLAgentBridge | None = None
    ) -> BacktestResult:
        """Plays a strategy from the first bar to the last.

        Args:
            request: Bars, costs and rules.
            strategy: Decides at every bar but the last; None: the agent does.
            agent: What the strategy finds in its context; None: one that never trades.
        """
        from alphaswarm_rl.execution.backtest_result import BacktestRecord

        self.check(request)
        context = self.context(agent)
        if strategy is None:
            strategy = ask_agent
            if RL_AGENT not in context:
                raise BookError(
                    f"engine {self.rl_alias!r} without a strategy", "it gives no agent a say", "Hand in a strategy."
                )
        account = request.account()
        bridge = context.get(RL_AGENT)
        with closing(self.open(request, account)) as session:
            session.logs = True
            record = BacktestRecord(request, self.rl_alias, account)
            while account.bar[0] < request.last_bar:
                session.step(strategy(account, context))
                record.add(session)
        return record.result(alarms=tuple(getattr(bridge, "alarms", ())))

    def context(self, agent: BaseRLAgentBridge | None) -> dict[str, object]:
        """What a strategy is given: the agent, where this engine supports one."""
        from alphaswarm_rl.execution.bridge import NoopRLAgentBridge

        if self.capabilities.supports_rl_injection:
            agent = NoopRLAgentBridge() if agent is None else agent
            agent.reset()
            return {RL_AGENT: agent}
        if agent is not None:
            raise BookError(
                f"an agent for the engine {self.rl_alias!r}",
                "its strategies cannot ask one",
                "Use an engine whose capabilities have supports_rl_injection.",
            )
        return {}

    def check(self, request: BacktestRequest) -> None:
        """Refuses what it cannot play."""
        can, market, panel = self.capabilities, request.market, request.market.panel
        self.check_orders(market.fill.name, request.sizes)
        actions = market.dividends is not None or market.splits is not None or market.ends is not None
        for what, is_lacking, remedy in (
            (f"targets of {request.trade.way}", request.trade.way not in can.trades, f"Use {_either(can.trades)}."),
            ("an account with margin", request.margin.lends and not can.margin, "Use a cash account."),
            ("costs with impact", request.costs.impact > 0 and not can.impact, "Set impact to 0."),
            (
                f"dividends, splits or ends among {', '.join(panel.assets[:5])}",
                actions and not can.corporate_actions,
                "Give adjusted prices of assets that trade to the end.",
            ),
        ):
            self._refuse(what, is_lacking, remedy)

    def check_orders(self, fill: str, sizing: str) -> None:
        """Refuses a fill policy and a sizing, by their names, that it cannot play."""
        can = self.capabilities
        self._refuse(f"fill {fill!r}", fill not in can.fills, f"Use {_either(can.fills)}.")
        self._refuse(f"sizing {sizing}", sizing not in can.sizings, f"Give --sizing {_either(can.sizings)}.")

    def _refuse(self, what: str, is_lacking: bool, remedy: str) -> None:
        if is_lacking:
            raise BookError(what, f"the engine {self.rl_alias!r} cannot play that", f"{remedy} Or: engine native.")


def ask_agent(account: View, context: Context) -> Decision | None:
    """The strategy of an agent alone: whatever it decides."""
    agent: BaseRLAgentBridge = context[RL_AGENT]  # type: ignore[assignment]
    return agent.consult(account).decision


def _either(names: frozenset[str]) -> str:
    return " or ".join(sorted(names))

"""Backtest engines: what is asked of one, its sessions, and the loop that plays a strategy.

A strategy is a function of an account and a context: it looks at the bars so far and answers with a decision, or with
None to leave everything as it is. An engine opens a session for one account; each step takes a decision and moves the
account to the next bar. Where the engine can, the context holds the agent as `rl_agent`.

    account at bar t -> strategy(account, context) -> Decision -> session.step -> account at bar t + 1
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from alphaswarm_rl.core.contracts import Trade
from alphaswarm_rl.core.errors import BookError
from alphaswarm_rl.core.kinds import BaseBacktestEngine
from alphaswarm_rl.core.types import Array
from alphaswarm_rl.core.view import View
from alphaswarm_rl.execution.backtest_result import BacktestRecord, BacktestResult
from alphaswarm_rl.execution.bridge import NoopRLAgentBridge
from alphaswarm_rl.execution.decision import Decision, GivenTargets
from alphaswarm_rl.market.costs import CostModel
from alphaswarm_rl.market.margin import CASH_ACCOUNT, Margin
from alphaswarm_rl.market.market import Market
from alphaswarm_rl.market.sizing import SizedOrders, SizingRules
from alphaswarm_rl.market.trade_log import TradeLog, log_names
from alphaswarm_rl.market.trades import TradeTables

if TYPE_CHECKING:
    from alphaswarm_rl.envs.trading_plan import TradingPlan
    from alphaswarm_rl.execution.bridge import BaseRLAgentBridge
    from alphaswarm_rl.market.decider import Decider

#: What a strategy finds beside its account; `rl_agent` is the agent, where the engine supports it.
Context: TypeAlias = "Mapping[str, object]"
Strategy: TypeAlias = "Callable[[View, Context], Decision | None]"

#: Under which name a strategy finds the agent.
RL_AGENT = "rl_agent"
#: What targets come from where nobody says more.
_STRATEGY = ("strategy",)


@dataclass(frozen=True, eq=False)
class BacktestRequest:
    """Bars, an account, and the rules by which it trades.

    Attributes:
        market: The bars and when orders fill, in NumPy's arrays.
        trade: What targets mean.
        costs: What trading costs.
        margin: What may be owed.
        sizing: By which rules decisions make orders of weights; None: weights are traded to at the fill.
        cash: What the account begins with.
        first: The bar of the first decision; None: the first of the window.
        last: The bar at which it is over; None: the last.
        stages: What targets come from, in order: the names for the trace of decisions.
        action: What each component of an action is about, for the tables; empty: the assets.
        tracks_cost: Whether the account keeps the average price of what it holds.
        stops: Whether decisions sell by stops of their own.
        limits: The limits that portfolio stages set, by name.
    """

    market: Market
    trade: Trade = field(default_factory=lambda: Trade("weights"))
    costs: CostModel = field(default_factory=CostModel)
    margin: Margin = CASH_ACCOUNT
    sizing: SizingRules | None = None
    cash: float = 100_000.0
    first: int | None = None
    last: int | None = None
    stages: tuple[str, ...] = _STRATEGY
    action: tuple[str, ...] = ()
    tracks_cost: bool = False
    stops: bool = False
    limits: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        bars = self.market.panel.num_bars
        if not 0 <= self.first_bar < self.last_bar < bars:
            raise BookError(
                f"a backtest from bar {self.first_bar} to bar {self.last_bar}",
                f"there are {bars} bars, and the first decision comes before the last bar",
                "Give first < last, both of the panel.",
            )
        if not self.cash > 0:
            raise BookError(f"cash {self.cash!r}", "an account begins with money", "Give a number above 0.")

    @classmethod
    def of_plan(cls, plan: TradingPlan, market: Market, decider: Decider) -> BacktestRequest:
        """What a trading environment of that plan plays in one episode over all its bars.

        Args:
            plan: The plan.
            market: The market of its panel.
            decider: The decider of its action and stages.
        """
        rules = cls(
            market=market,
            costs=plan.costs,
            margin=plan.margin,
            sizing=plan.sizing,
            cash=plan.initial_cash,
            first=plan.first_bar,
            last=plan.last_bar,
            tracks_cost=plan.tracks_cost,
        )
        return rules.decided_by(decider)

    def decided_by(self, decider: Decider) -> BacktestRequest:
        """The same for decisions of that decider: what they mean, and what its targets come from."""
        return replace(
            self,
            trade=decider.trade,
            stages=decider.stage_names,
            action=decider.symbols(self.market.panel),
            stops=decider.stops_orders,
            limits=decider.limits,
        )

    @property
    def first_bar(self) -> int:
        """The bar of the first decision."""
        return self.market.panel.warmup if self.first is None else self.first

    @property
    def last_bar(self) -> int:
        """The bar at which it is over."""
        return self.market.panel.num_bars - 1 if self.last is None else self.last

    @property
    def sizes(self) -> str:
        """When weights become units: `at_fill` or `at_decision`."""
        return "at_fill" if self.sizing is None else "at_decision"

    def decider(self) -> GivenTargets:
        """The decider of a decision step that takes its decisions."""
        return GivenTargets(self.trade, self.stages, action=self.action, stops=self.stops, limits=self.limits)

    @cached_property
    def log_names(self) -> tuple[str, ...]:
        """The arrays that a log of its steps has."""
        return log_names(self.market, self.trade, self.margin, stops=self.stops, limited=bool(self.limits))

    def tables(self) -> TradeTables:
        """What turns logs of its steps into positions and fills."""
        return TradeTables.of(self.decider(), self.market, self.costs)

    def account(self) -> View:
        """A new account at the first bar."""
        view = View(self.market, self.cash, 1)
        view.bar[:] = view.start[:] = self.first_bar
        view.last[:] = self.last_bar
        for array in (view.cash, view.value, view.value_before, view.peak):
            array[:] = self.cash
        if self.tracks_cost:
            view.average_cost = np.zeros((1, self.market.assets))
        return view


class EngineSession(abc.ABC):
    """One account in an engine, stepped bar by bar.

    Args:
        request: Bars and rules.
        account: The account, changed in place.

    Attributes:
        account: The account.
        closed: Units (1, A) that were closed by force in the last step, by reason.
        sized: The orders (1, A) of the last step, where decisions make orders of weights; else None.
        logs: Whether steps are logged.
        log: What the last step did, asset by asset; None unless steps are logged.
    """

    def __init__(self, request: BacktestRequest, account: View) -> None:
        self.request = request
        self.account = account
        self.closed: dict[str, Array] = {}
        self.sized: SizedOrders | None = None
        self.logs = False
        self.log: TradeLog | None = None

    @abc.abstractmethod
    def step(self, decision: Decision | None) -> None:
        """Trades by a decision, or not at all, and moves the account to the next bar."""

    def close(self) -> None:  # noqa: B027  (most hold nothing)
        """Frees what the session holds."""


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
        actions = market.dividends is not None or market.splits is not None or market.ends is not None
        for what, is_lacking, remedy in (
            (f"fill {market.fill.name!r}", market.fill.name not in can.fills, f"Use {_either(can.fills)}."),
            (f"sizing {request.sizes}", request.sizes not in can.sizings, f"Give --sizing {_either(can.sizings)}."),
            (f"targets of {request.trade.way}", request.trade.way not in can.trades, f"Use {_either(can.trades)}."),
            ("an account with margin", request.margin.lends and not can.margin, "Use a cash account."),
            ("costs with impact", request.costs.impact > 0 and not can.impact, "Set impact to 0."),
            (
                f"dividends, splits or ends among {', '.join(panel.assets[:5])}",
                actions and not can.corporate_actions,
                "Give adjusted prices of assets that trade to the end.",
            ),
        ):
            if is_lacking:
                raise BookError(what, f"the engine {self.rl_alias!r} cannot play that", f"{remedy} Or: engine native.")


def ask_agent(account: View, context: Context) -> Decision | None:
    """The strategy of an agent alone: whatever it decides."""
    agent: BaseRLAgentBridge = context[RL_AGENT]  # type: ignore[assignment]
    return agent.consult(account).decision


def _either(names: frozenset[str]) -> str:
    return " or ".join(sorted(names))

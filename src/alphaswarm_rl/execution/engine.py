"""What is asked of a backtest engine, and its sessions: one account each, moved on by decisions."""

from __future__ import annotations

import abc
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from alphaswarm_rl.core.contracts import Trade
from alphaswarm_rl.core.errors import BookError
from alphaswarm_rl.core.types import Array
from alphaswarm_rl.core.view import View
from alphaswarm_rl.execution.decision import Decision, GivenTargets
from alphaswarm_rl.market.costs import CostModel
from alphaswarm_rl.market.margin import CASH_ACCOUNT, Margin
from alphaswarm_rl.market.market import Market
from alphaswarm_rl.market.sizing import SizedOrders, SizingRules
from alphaswarm_rl.market.trade_log import TradeLog, log_names
from alphaswarm_rl.market.trades import TradeTables

if TYPE_CHECKING:
    from alphaswarm_rl.envs.trading_plan import TradingPlan
    from alphaswarm_rl.market.decider import Decider

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

    def step(self, decision: Decision | None) -> None:
        """Trades by a decision, or not at all, and moves the account to the next bar."""
        if decision is not None:
            decision.check(self.request.trade, self.request.market.assets)
        self._play(decision)

    @abc.abstractmethod
    def _play(self, decision: Decision | None) -> None:
        """One bar."""

    def close(self) -> None:  # noqa: B027  (most hold nothing)
        """Frees what the session holds."""

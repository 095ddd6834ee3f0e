"""What became of an account in a backtest: its curve, its weights after each stage, its positions and fills."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from alphaswarm_rl.core.types import Array, NamedArrays
from alphaswarm_rl.core.view import View
from alphaswarm_rl.market.trades import Fills, Positions, TradeTables

if TYPE_CHECKING:
    from alphaswarm_rl.execution.engine import BacktestRequest, EngineSession

#: Numbers of the account by what a view calls them: one per bar, the first included.
_LEVELS = ("value", "cash")
#: What a step did to it: one per step.
_FLOWS = ("cost", "carry", "turnover")


@dataclass(frozen=True, eq=False)
class BacktestResult:
    """A backtest of T steps over A assets.

    Attributes:
        engine: Which engine played it.
        assets: The symbols, in the order of the columns.
        stages: What targets came from.
        timestamps: The bars, (T + 1,).
        equity: The account's value at each bar, (T + 1,).
        cash: Its cash, (T + 1,).
        positions: Units held, (T + 1, A).
        cost: Commission, spread and impact of each step in money, (T,).
        carry: Borrow and funding of each step in money, (T,).
        turnover: Value traded in each step over the equity before, (T,).
        orders: Units that each step ordered, (T, A); None where weights are traded to at the fill.
        shortfalls: Why an order is less than its weight asks for, indices into `SHORTFALLS`, (T, A) int8; None with it.
        log: What each step did, asset by asset: the arrays of a `TradeLog`.
        tables: What turns the log into positions and fills.
        alarms: Why the agent failed, each time.
    """

    engine: str
    assets: tuple[str, ...]
    stages: tuple[str, ...]
    timestamps: Array
    equity: Array
    cash: Array
    positions: Array
    cost: Array
    carry: Array
    turnover: Array
    orders: Array | None
    shortfalls: Array | None
    log: NamedArrays
    tables: TradeTables
    alarms: tuple[str, ...] = ()

    @property
    def returns(self) -> Array:
        """The relative change of the equity in each step, (T,)."""
        before = np.where(self.equity[:-1] > 0, self.equity[:-1], np.inf)
        changes: Array = (self.equity[1:] - self.equity[:-1]) / before
        return changes

    @property
    def targets(self) -> Array:
        """The targets after each stage, (T, K, A), or (T, K) for the position in one asset."""
        return self.log["targets"]

    @cached_property
    def fills(self) -> Fills:
        """Every fill, in order; `row` is the step."""
        return self.tables.fills(self.log)

    @cached_property
    def holdings(self) -> Positions:
        """What was held before and after each step, and what it brought and cost."""
        return self.tables.positions(self.log, self.cash[1:], self.carry)


class BacktestRecord:
    """The record of a backtest while it is played.

    Args:
        request: Bars and rules.
        engine: The engine's alias.
        account: The account at its first bar.
    """

    def __init__(self, request: BacktestRequest, engine: str, account: View) -> None:
        steps = request.last_bar - request.first_bar
        self._request, self._engine, self._step = request, engine, 0
        self._levels = {name: np.empty(steps + 1) for name in _LEVELS}
        self._flows = {name: np.empty(steps) for name in _FLOWS}
        self._positions = np.empty((steps + 1, request.market.assets))
        self._log: NamedArrays = {}
        self._orders = np.empty((steps, request.market.assets))
        self._shortfalls = np.empty(self._orders.shape, np.int8)
        self._note(account)

    def add(self, session: EngineSession) -> None:
        """Takes in one step."""
        account, step = session.account, self._step
        for name, array in self._flows.items():
            array[step] = getattr(account, name)[0]
        if session.sized is not None:
            self._orders[step], self._shortfalls[step] = session.sized.orders[0], session.sized.reasons[0]
        assert session.log is not None
        for name, array in session.log.arrays(account, self._request.log_names).items():
            if step == 0:
                self._log[name] = np.empty((len(self._flows["cost"]), *array.shape[1:]), array.dtype)
            self._log[name][step] = array[0]
        self._step += 1
        self._note(account)

    def result(self, *, alarms: tuple[str, ...]) -> BacktestResult:
        """The result, once the last bar is played."""
        request, tables = self._request, self._request.tables()
        bars = slice(request.first_bar, request.last_bar + 1)
        return BacktestResult(
            engine=self._engine,
            assets=request.market.panel.assets,
            stages=request.stages,
            timestamps=request.market.panel.timestamps[bars],
            equity=self._levels["value"],
            cash=self._levels["cash"],
            positions=self._positions,
            orders=None if request.sizing is None else self._orders,
            shortfalls=None if request.sizing is None else self._shortfalls,
            log=self._log,
            tables=tables,
            alarms=alarms,
            **self._flows,
        )

    def _note(self, account: View) -> None:
        for name, array in self._levels.items():
            array[self._step] = getattr(account, name)[0]
        self._positions[self._step] = account.positions[0]

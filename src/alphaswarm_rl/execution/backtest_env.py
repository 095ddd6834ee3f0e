"""A trading environment whose accounts are played by a backtest engine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

import numpy as np

from alphaswarm_rl.core.contracts import EnvRequest
from alphaswarm_rl.core.kinds import BaseBacktestEngine
from alphaswarm_rl.core.types import Array, NamedArrays
from alphaswarm_rl.core.view import View
from alphaswarm_rl.envs.trading_env import TradingEnv
from alphaswarm_rl.envs.trading_plan import TradingPlan
from alphaswarm_rl.execution.decision import Decision
from alphaswarm_rl.execution.engine import BacktestRequest, EngineSession
from alphaswarm_rl.execution.stepped_engine import SteppedEngine
from alphaswarm_rl.market.decider import Decider
from alphaswarm_rl.market.decision_step_numpy import ActionCheck
from alphaswarm_rl.market.part import Part
from alphaswarm_rl.market.sizing import SizedOrders


class RLBacktestEnv(TradingEnv):
    """A trading environment in which a backtest engine does what the decision step does otherwise.

    Observations, actions, stages, rewards and terminations are those of the plan. Between a decision and the next bar
    each account is a session of the engine, so that the environment shows what that engine makes of a policy.

    Args:
        request: How many accounts are wanted.
        plan: What they are made of.
        engine: The engine.
    """

    def __init__(self, request: EnvRequest, plan: TradingPlan, engine: BaseBacktestEngine) -> None:
        self.engine = engine
        self._sessions: EngineStep | None = None
        super().__init__(request, plan)

    def decision_step(self) -> EngineStep:
        """The sessions of the engine."""
        request = BacktestRequest.of_plan(self.plan, self.market, self.decider)
        self._sessions = sessions = EngineStep(self.view, self.decider, request, self.engine)
        return sessions

    def begin(self, rows: Array, draws: Array) -> None:
        """All cash, on the episode's first bar, in sessions of their own."""
        super().begin(rows, draws)
        assert self._sessions is not None
        self._sessions.begin(rows)

    def close_extras(self, **kwargs: object) -> None:
        """Ends the sessions, where it came to have any."""
        if self._sessions is not None:
            self._sessions.begin(self._all)


class UnrestorableBacktestEnv(RLBacktestEnv):
    """The same in an engine whose sessions cannot be put back into a state: it has none to save."""

    @property
    def get_state(self) -> NoReturn:
        """Not there."""
        raise AttributeError("get_state")

    @property
    def set_state(self) -> NoReturn:
        """Not there."""
        raise AttributeError("set_state")


def backtest_env(request: EnvRequest, plan: TradingPlan, engine: BaseBacktestEngine) -> RLBacktestEnv:
    """The environment of that plan whose accounts an engine plays."""
    made = RLBacktestEnv if engine.capabilities.restores else UnrestorableBacktestEnv
    return made(request, plan, engine)


class EngineStep:
    """The decision step of n accounts in an engine: one decider for all, one session for each.

    Args:
        view: The accounts.
        decider: What makes targets of actions.
        request: Bars and rules.
        engine: The engine.

    Attributes:
        closed: Units (n, A) that were closed by force in the step, by reason.
        sized: What the last step ordered, where decisions make orders of weights; else None.
        logs: Whether steps are logged.
        log: What the last step did, asset by asset; None unless steps are logged.
    """

    def __init__(self, view: View, decider: Decider, request: BacktestRequest, engine: BaseBacktestEngine) -> None:
        if isinstance(engine, SteppedEngine):
            engine.check(request)
        self.closed: dict[str, Array] = {}
        shape = view.positions.shape
        self.sized = None if request.sizing is None else SizedOrders(np.zeros(shape), np.zeros(shape, np.int8))
        self.logs = False
        self.log: _Logs | None = None
        self._view, self._decider, self._request, self._engine = view, decider, request, engine
        self._actions = ActionCheck(decider.space, view.n)
        self._sessions: dict[int, EngineSession] = {}
        # Accounts and deciders of one row share the arrays of all: what a session changes is changed here.
        self._accounts = [_row_of(view, row) for row in range(view.n)]
        self._deciders = [_decider_of(decider, row) for row in range(view.n)]

    def begin(self, rows: Iterable[int]) -> None:
        """Ends the sessions of some accounts; the next step opens new ones."""
        for row in rows:
            session = self._sessions.pop(int(row), None)
            if session is not None:
                session.close()

    def step(self, actions: Array) -> None:
        """Decides for all accounts and has each played for one bar."""
        view, checked = self._view, self._actions.checked(actions)
        trace: list[Array] = []
        measured: list[Array] = []
        targets = self._decider.decide(view, checked, None, trace, measured)
        stopped = np.asarray(self._decider.stopped(view)) if self._request.stops else None
        self.closed = {}
        for row, account in enumerate(self._accounts):
            account.action = checked[row : row + 1]
            session = self._sessions.get(row) or self._open(row, account)
            session.logs = self.logs
            session.step(self._decision(row, targets, trace, measured, stopped))
            if self.sized is not None and session.sized is not None:
                self.sized.orders[row], self.sized.reasons[row] = session.sized.orders[0], session.sized.reasons[0]
            for reason, units in session.closed.items():
                self.closed.setdefault(reason, np.zeros_like(view.positions))[row] = units[0]
        self.log = _Logs(self._sessions, self._accounts) if self.logs else None

    def _open(self, row: int, account: View) -> EngineSession:
        session: EngineSession = self._engine.open(self._request, account)
        self._sessions[row] = session
        return session

    def _decision(
        self, row: int, targets: Array, trace: list[Array], measured: list[Array], stopped: Array | None
    ) -> Decision:
        one = slice(row, row + 1)
        return Decision(
            targets[one],
            tuple(array[one] for array in trace),
            None if stopped is None else stopped[one],
            tuple(array[one] for array in measured),
            self._deciders[row] if self._request.trade.bracket else None,
        )


class _Logs:
    """The logs of all sessions as one."""

    def __init__(self, sessions: dict[int, EngineSession], accounts: list[View]) -> None:
        self._logs = [(sessions[row].log, account) for row, account in enumerate(accounts)]

    def arrays(self, view: View, names: tuple[str, ...]) -> NamedArrays:
        """The arrays by name, one row per account."""
        found = [log.arrays(account, names) for log, account in self._logs if log is not None]
        return {name: np.concatenate([arrays[name] for arrays in found]) for name in names}


def _row_of(view: View, row: int) -> View:
    """One account of a view, on the same arrays."""
    arrays = {name: array[row : row + 1] for name, array in view.arrays().items() if name != "action"}
    return View.of(view.market, view.initial_cash, arrays)


def _decider_of(decider: Decider, row: int) -> Decider:
    """The decider of one account, on the same arrays."""

    def one(part: Part) -> Part:
        return part.holding({name: array[row : row + 1] for name, array in part.own.items()})

    return decider.holding(one(decider.action), [one(stage) for stage in decider.stages])

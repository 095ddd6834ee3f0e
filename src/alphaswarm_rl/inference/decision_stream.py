"""Decisions of a policy on one account, bar by bar: from bars so far and an account to target weights and orders.

No environment is built. What the observation and the portfolio stages remember is carried from bar to bar; where a
stream begins later than its window, it is made up for by the bars alone, and refused by name where it depends on what
the account held.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from alphaswarm_rl.arrays.moments import shown
from alphaswarm_rl.core.errors import DataError, EnvError, OrderError
from alphaswarm_rl.core.orders import DomainOrder, Skipped, TargetWeights
from alphaswarm_rl.core.types import Array
from alphaswarm_rl.data_pipelines.carried_history import CarriedHistory
from alphaswarm_rl.data_pipelines.pipeline import PanelPipeline
from alphaswarm_rl.inference.account import Account, AccountView
from alphaswarm_rl.inference.decision_bars import DecisionBars, History
from alphaswarm_rl.inference.decision_orders import orders_of, sized
from alphaswarm_rl.inference.policy import LoadedPolicy, refuse_other_than_actions
from alphaswarm_rl.inference.process import cpu_threads
from alphaswarm_rl.market.bar_row import BarRow
from alphaswarm_rl.market.fills import fill_policy
from alphaswarm_rl.market.part import Part
from alphaswarm_rl.observations.next_open import NextOpen

if TYPE_CHECKING:
    from alphaswarm_rl.execution.equity_guard import EquityGuard
    from alphaswarm_rl.market.market import Market


@dataclass(frozen=True, eq=False)
class TradingDecision:
    """What a policy decided about one account at the close of one bar.

    Attributes:
        bar: The label of the bar, datetime64[ns], UTC.
        known_at: When all of it was known.
        assets: The symbols.
        targets: What the policy's targets are: `weights`, `shares` or `position`.
        stages: What they come from: the action, each portfolio stage, and the turbulence gate where there is one.
        by_stage: The targets after each of them, (stages, A); of a position in one asset NaN elsewhere.
        held: Parts of the equity that are held, (A,).
        equity: The account's value.
        orders: Orders, reductions first.
        skipped: What is not ordered, or not in full, and why.
        indicative: Whether units are made at the fill, so that orders only show what they would be at the last close.
        history: Whether features come from the history that the run had: `complete`, `short` or `unknown`.
        checkpoint_sha256: The checkpoint that decided.
    """

    bar: np.datetime64
    known_at: np.datetime64
    assets: tuple[str, ...]
    targets: str
    stages: tuple[str, ...]
    by_stage: Array
    held: Array
    equity: float
    orders: tuple[DomainOrder, ...]
    skipped: tuple[Skipped, ...]
    indicative: bool
    history: History
    checkpoint_sha256: str

    @property
    def target(self) -> Array:
        """What is to be held or traded in the end, (A,)."""
        return np.asarray(self.by_stage[-1])

    def weights(self, leverage: float = np.inf) -> TargetWeights:
        """The target weights as they pass to an execution; an error where the policy's targets are no weights.

        Args:
            leverage: The largest sum of absolute weights that is no mistake.
        """
        if self.targets != "weights":
            raise EnvError(
                f"targets in {self.targets}", "they are no weights", "Use the orders, or a policy that gives weights."
            )
        return TargetWeights(self.assets, self.target, self.bar, leverage)


class DecisionStream:
    """A policy's decisions on one account, one bar after the other; made by `PolicyServer.decision_stream`.

    Bars come one at a time with `add`, and their features are carried, not computed anew. `decide` decides at the
    newest bar, once: parts that remember see every bar once, in order.

    Args:
        policy: The policy.
        bars: The bars so far.
        carries: Whether more bars will come.
        deterministic: Whether it acts without drawing.
        run_id: The run that trained it: orders are named by it.
        refuse_if_halted: Asked before every decision; what it raises refuses it.
        guard: What is held while the policy is asked.
        equity_guard: Sees the account's equity at every decision, and may halt; None: nobody does.
    """

    def __init__(
        self,
        policy: LoadedPolicy,
        bars: DecisionBars,
        *,
        carries: bool = True,
        deterministic: bool = True,
        run_id: str = "",
        refuse_if_halted: Callable[[], None] = lambda: None,
        guard: Callable[[], AbstractContextManager[object]] = nullcontext,
        equity_guard: EquityGuard | None = None,
    ) -> None:
        self._policy, self._deterministic, self._run_id = policy, deterministic, run_id
        self._refuse_if_halted, self._guard, self._equity_guard = refuse_if_halted, guard, equity_guard
        self._plan = policy.plan
        refuse_undecidable(policy)
        self._traded = self._plan.traded_market()
        self._rules = self._plan.rules(policy.spec)
        self._rules.costs.check_volume(bars.whole.volume)
        self._history = bars.history
        with cpu_threads(policy.settings.infer.threads, load_torch=False):
            self._carried = _carried(policy, bars) if carries else None
            self._market: Market = policy.market(bars.panel) if self._carried is None else self._carried.market
            self._observer, self._decider = self._plan.observer(self._market, 1), self._plan.decider(self._market, 1)
        self._stream = policy.stream()
        self._start, self._next = bars.start, bars.start
        self._remembers = policy.remembers or any(part.own for part in (*self._observer.parts, *self._decider.stages))
        self._began = False
        while self._remembers and self._next < self._newest:
            self._make_up_for(self._next)
            self._next += 1
        self._next = self._newest

    @property
    def _newest(self) -> int:
        return self._market.panel.num_bars - 1

    @property
    def timestamp(self) -> np.datetime64:
        """The label of the newest bar."""
        stamp: np.datetime64 = self._market.panel.timestamps[-1]
        return stamp

    def add(self, row: BarRow) -> None:
        """Takes in the next bar.

        Raises:
            DataError: The bar is wrong, or the one before was not decided at and something remembers every bar.
        """
        if self._carried is None:
            raise DataError("a new bar", "this stream takes none", "Open it with PolicyServer.decision_stream.")
        if self._remembers and self._next == self._newest:
            raise DataError(
                f"the bar after {shown(self.timestamp)}",
                "nothing was decided at the one before, and the policy remembers every bar",
                "Decide at each bar, in order.",
            )
        # With as many threads as in runs: sums of another number round differently.
        with cpu_threads(self._policy.settings.infer.threads, load_torch=False):
            self._market = self._carried.add(row)
            self._observer.extend(self._market)
            self._decider.extend(self._market)
        self._next = self._newest

    def decide(self, account: Account) -> TradingDecision:
        """What the policy decides about an account at the close of the newest bar.

        Raises:
            RunError: The kill switch is engaged or silent, or the account's losses engage it.
            OrderError: The account does not fit, or lacks what some part of the policy reads.
        """
        self._refuse_if_halted()
        if self._next > self._newest:
            why = "it was decided at already, and every bar is looked at once"
            raise DataError(f"the bar of {shown(self.timestamp)}", why, "Add the next bar first.")
        bar, initial_cash = self._newest, self._traded.initial_cash
        view = AccountView.of_account(account, self._market, bar=bar, start=self._start, initial_cash=initial_cash)
        if self._equity_guard is not None:  # before anything else: what is worth nothing has lost all
            self._equity_guard.refuse(self.timestamp, float(view.value[0]))
        self._refuse_debts(view)
        with self._guard():
            actions = self._act(view)
        view.reader = "the action, or a portfolio stage,"
        trace: list[Array] = []
        targets = self._decider.decide(view, actions, None, trace)
        self._next = bar + 1
        self._refuse_if_halted()  # a decision may take long
        return self._decided(view, targets, trace)

    def _refuse_debts(self, view: AccountView) -> None:
        """Refuses what an account cannot have that owes nothing, and one that is worth nothing."""
        margin, assets = self._rules.margin, self._market.panel.assets
        short = np.flatnonzero(view.positions[0] < 0)
        if len(short) and not margin.short:
            what = f"the position of {assets[short[0]]!r}"
            raise OrderError(what, "it is negative, and the account cannot be short", "Give what is held.")
        if view.cash[0] < 0 and not margin.lends:
            raise OrderError("the account's cash", "it is negative, and a cash account owes nothing", "Give its cash.")
        if not view.value[0] > 0:
            raise OrderError("the account", f"its equity is {view.value[0]:.2f}", "There is nothing to decide about.")

    def _act(self, view: AccountView) -> Array:
        """The policy's action, one row."""
        observation = self._observe(view)
        masks = self._decider.masks(view) if self._plan.action.masks else None
        actions = self._stream.act(observation, not self._began, deterministic=self._deterministic, masks=masks)
        self._began = True
        refuse_other_than_actions(
            f"checkpoint {str(self._policy.checkpoint.path)!r}", actions, self._policy.action_space
        )
        return actions

    def _observe(self, view: AccountView) -> Array:
        out = np.zeros((1, len(self._observer.feature_names)), np.float32)
        for part, columns in zip(self._observer.parts, self._observer.columns, strict=True):
            view.reader = f"the observation {part.component.rl_alias!r}"
            part.step(view, out[:, columns])
            # The bars so far end before the open that it shows.
            if isinstance(part.component, NextOpen) and view.bar[0] == self._newest:
                out[:, columns] = part.component.changes(view.next_open, self._market.panel.close[-1])
        return out

    def _make_up_for(self, bar: int) -> None:
        """What is remembered of a bar at which the account is not known."""
        view = AccountView.of_bars(self._market, bar, self._start)
        if self._policy.remembers:
            with self._guard():
                self._act(view)
        else:
            for part in self._observer.parts:
                if part.own:
                    view.reader = f"the observation {part.component.rl_alias!r}"
                    part.step(view, np.zeros((1, len(part.component.names(self._market.panel))), np.float32))  # type: ignore[attr-defined]
        for part in self._decider.stages:
            if part.own:
                view.reader = f"the portfolio stage {part.component.rl_alias!r}"
                _make_up_stage(part, view, self._market.assets)

    def _decided(self, view: AccountView, targets: Array, trace: list[Array]) -> TradingDecision:
        panel, trade = self._market.panel, self._decider.trade
        found = sized(view, self._decider, targets, self._rules)
        orders, skipped = orders_of(view, self._decider, trace, found, self._run_id)
        by_stage = np.full((len(trace), panel.num_assets), np.nan)
        for row, stage in zip(by_stage, trace, strict=True):
            if trade.way == "position":
                row[trade.asset] = stage[0]
            else:
                row[:] = stage[0]
        by_stage.flags.writeable = False
        return TradingDecision(
            bar=panel.timestamps[-1],
            known_at=panel.known_at[-1],
            assets=panel.assets,
            targets=trade.way,
            stages=self._decider.stage_names,
            by_stage=by_stage,
            held=view.weights[0],
            equity=float(view.value[0]),
            orders=orders,
            skipped=skipped,
            indicative=self._rules.sizing is None,
            history=self._history,
            checkpoint_sha256=self._policy.checkpoint.sha256,
        )


def _make_up_stage(part: Part, view: AccountView, assets: int) -> None:
    """What a stage remembers of a bar whose weights are not known; refused where it depends on them."""
    remembered = []
    before = {name: array.copy() for name, array in part.own.items()}
    for weights in (np.zeros((1, assets)), np.full((1, assets), 1.0 / assets)):
        for name, array in part.own.items():
            array[...] = before[name]
        part.step(view, weights)
        remembered.append({name: array.copy() for name, array in part.own.items()})
    first, second = remembered
    if not all(np.array_equal(first[name], second[name], equal_nan=True) for name in first):
        raise EnvError(
            f"the portfolio stage {part.component.rl_alias!r}",
            "it remembers the weights of every bar, and they are not known",
            "Decide bar by bar with a DecisionStream, from the first bar on.",
        )


def refuse_undecidable(policy: LoadedPolicy) -> None:
    """Refuses a policy that cannot decide from bars and an account."""
    plan = policy.plan
    plan.traded_market()
    if plan.needs_env:
        raise EnvError(
            f"a policy of {plan.scope.env_id!r}",
            "it is a rule that looks at its environment, and answers nowhere else",
            "Evaluate it, or use a trained policy.",
        )


def _carried(policy: LoadedPolicy, bars: DecisionBars) -> CarriedHistory:
    pipeline = None if policy.spec.data_pipeline is None else policy.spec.data_pipeline.build()
    if not isinstance(pipeline, PanelPipeline):
        raise EnvError(
            "a stream of bars",
            "the policy's data pipeline is none whose features can be carried from bar to bar",
            "Decide on the whole history: PolicyServer.decide.",
        )
    policy.refuse_other_assets(bars.whole)
    fill = fill_policy(policy.plan.traded_market().fill)
    return CarriedHistory(pipeline, policy.fitted, bars.whole, first=bars.first, warmup=bars.start, fill=fill)

"""The composed trading environment on the CPU."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from alphaswarm_rl.arrays.backend_numpy import NUMPY
from alphaswarm_rl.core.contracts import EnvRequest
from alphaswarm_rl.core.types import Array
from alphaswarm_rl.core.view import View
from alphaswarm_rl.envs.base import BaseRLEnv
from alphaswarm_rl.envs.episodes import checked_request
from alphaswarm_rl.envs.trading_plan import END_OF_DATA, STARTING_MONEY, TradingParts, TradingPlan
from alphaswarm_rl.market.decision_step_numpy import NumpyDecisionStep
from alphaswarm_rl.market.market import market_of
from alphaswarm_rl.market.sizing import SizedOrders
from alphaswarm_rl.market.trade_log import log_names
from alphaswarm_rl.market.trades import TradedNames, TradeTables, names_of


class TradingEnv(BaseRLEnv):
    """Accounts on one market, stepped together.

    Within a step come the action, the portfolio stages, the fill, the mark at the next bar's close, the terminations,
    the reward, and the observation. `infos` holds arrays: `portfolio_value`, `nav_return`, `cash`, `drawdown`,
    `turnover`, `cost`, `carry`, `step_idx`, `timestamp`, `improper_stop`, `turbulence` where the market has it, and
    `reward_terms` by name, which sum to the reward; where an episode ended, `reason` says why and `_reason` for whom;
    where positions were closed by force, `closed` holds the units by reason: `asset_end`, `margin_call`, `bracket`. On
    an episode's last step they are the ended episode's. After `log_trades` they hold `trades` too, and with
    portfolio stages `rl_pipeline_history`: the weights (n, A) after the action and after each stage, by its alias.

    Args:
        request: How many are wanted.
        plan: What they are made of.
    """

    def __init__(self, request: EnvRequest, plan: TradingPlan) -> None:
        n = checked_request(request).num_envs
        self.plan = plan
        self.market = market_of(plan.panel, plan.fill, NUMPY)
        self.parts = TradingParts(plan, self.market, n)
        self.observer, self.decider = self.parts.observer, self.parts.decider
        self.feature_names = self.observer.feature_names
        self.trade = self.decider.trade
        super().__init__(request, observation_space=self.observer.space, action_space=self.decider.space)
        terms = zip(plan.terms, self.parts.terms, strict=True)
        self._terms = [(named.name, named.weight, part) for named, part in terms]
        self.view = View(self.market, plan.initial_cash, n)
        if plan.tracks_cost:
            self.view.average_cost = np.zeros((n, plan.panel.num_assets))
        self._decision = NumpyDecisionStep(self.view, self.decider, plan.costs, plan.margin, plan.sizing)
        self.begin(self._all, np.zeros((n, 1)))
        if self.decider.masks(self.view) is not None:
            self.action_masks = self._masks

    def begin(self, rows: Array, draws: Array) -> None:
        """All cash, on the episode's first bar."""
        plan, view = self.plan, self.view
        start = plan.first_bar + (draws[:, 0] * plan.starts).astype(np.int64)
        for array in self._account().values():
            array[rows] = 0
        view.bar[rows] = view.start[rows] = start
        view.last[rows] = start + plan.length
        for name in STARTING_MONEY:
            getattr(view, name)[rows] = plan.initial_cash
        for part in self.parts:
            part.begin(rows)

    def advance(self, actions: Array) -> tuple[Array, Array, Array, dict[str, Any]]:
        """The decision step, then terminations and reward."""
        view = self.view
        self._decision.step(actions)
        reasons = self._judge()
        rewards, terms = self._reward()
        infos = self._infos(terms)
        if reasons is not None:
            infos["reason"], infos["_reason"] = reasons, view.terminated | view.truncated
        return rewards, view.terminated.copy(), view.truncated.copy(), infos

    @property
    def traded_names(self) -> TradedNames:
        """What the numbers of its actions, targets and positions are about."""
        return names_of(self.decider, self.market)

    @property
    def sized(self) -> SizedOrders | None:
        """What the last step ordered, in arrays that the next one writes over; None where weights have no orders."""
        return self._decision.sized

    def log_trades(self) -> TradeTables:
        """From now on infos hold `trades`: arrays of what each step did, asset by asset.

        Returns:
            What turns them into positions and fills.
        """
        self._decision.logs = True
        return TradeTables.of(self.decider, self.market, self.plan.costs)

    def observe(self, rows: Array) -> Array:
        """What these environments show."""
        out: Array = np.empty((len(rows), len(self.feature_names)), np.float32)
        if rows is self._all:
            return self.observer.observe(self.view, out)
        return self.observer.observe_rows(self.view.rows(rows), rows, out)

    def identity(self) -> dict[str, Any]:
        """Its market and parts."""
        return self.plan.identity()

    def arrays(self) -> dict[str, Array]:
        """Accounts and the parts' own arrays."""
        return {f"account/{name}": array for name, array in self._account().items()} | self.parts.arrays()

    @cached_property
    def _log_names(self) -> tuple[str, ...]:
        stops, limited = self.decider.stops_orders, bool(self.decider.limits)
        return log_names(self.market, self.trade, self.plan.margin, stops=stops, limited=limited)

    def _account(self) -> dict[str, Array]:
        """The arrays of the accounts; the last action is none of them."""
        return {name: array for name, array in self.view.arrays().items() if name != "action"}

    def _masks(self) -> Array:
        return np.asarray(self.decider.masks(self.view))

    def _judge(self) -> Array | None:
        """Sets the flags; the reasons of episodes that ended, if any did."""
        view = self.view
        np.greater_equal(view.bar, view.last, out=view.truncated)
        fired = self._fired() if self.parts.terminations else ()
        if not fired:
            # Nothing failed: most steps, and worth being quick about.
            view.terminated.fill(False)
            view.improper_stop.fill(False)
            return np.where(view.truncated, END_OF_DATA, "") if np.count_nonzero(view.truncated) else None
        view.terminated[:] = False
        for _, improper, hit in fired:
            if improper:
                view.terminated |= hit
        for _, improper, hit in fired:
            if not improper:
                view.truncated |= hit
        view.truncated &= ~view.terminated
        view.improper_stop[:] = view.terminated
        # The first that fired names the end; a failure goes before anything else.
        reasons = np.full(self.num_envs, "", object)
        for name, _, hit in sorted(fired, key=lambda one: not one[1]):
            reasons[hit & (reasons == "")] = name
        reasons[view.truncated & (reasons == "")] = END_OF_DATA
        return reasons

    def _fired(self) -> list[tuple[str, bool, Array]]:
        """The terminations that ended some episode: alias, whether by failure, where."""
        fired = []
        for part in self.parts.terminations:
            hit = np.empty(self.num_envs, np.bool_)
            part.step(self.view, hit)
            if np.count_nonzero(hit):
                fired.append((part.component.rl_alias, bool(part.component.improper), hit))  # type: ignore[attr-defined]
        return fired

    def _reward(self) -> tuple[Array, dict[str, Array]]:
        view = self.view
        view.reward[:] = 0.0
        terms: dict[str, Array] = {}
        for name, weight, part in self._terms:
            out = np.empty(self.num_envs)
            part.step(view, out)
            if weight != 1.0:
                out *= weight
            terms[name] = out
            view.reward += out
        return view.reward.copy(), terms

    def _infos(self, terms: dict[str, Array]) -> dict[str, Any]:
        view = self.view
        infos: dict[str, Any] = {
            "portfolio_value": view.value.copy(),
            "nav_return": view.portfolio_return,
            "cash": view.cash.copy(),
            "drawdown": view.drawdown,
            "turnover": view.turnover.copy(),
            "cost": view.cost.copy(),
            "carry": view.carry.copy(),
            "step_idx": view.steps,
            "timestamp": self.plan.panel.timestamps[view.bar],
            "improper_stop": view.improper_stop.copy(),
            "reward_terms": terms,
        }
        if self.market.turbulence is not None:
            infos["turbulence"] = self.market.turbulence[view.bar]
        if self._decision.closed:
            infos["closed"] = dict(self._decision.closed)
        if self._decision.log is not None:
            infos["trades"] = self._decision.log.arrays(view, self._log_names)
            if self.decider.stages:
                infos["rl_pipeline_history"] = self.decider.history(infos["trades"]["targets"])
        return infos

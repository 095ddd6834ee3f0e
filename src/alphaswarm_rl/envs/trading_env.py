"""The composed trading environment on the CPU."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium.spaces import Box

from alphaswarm_rl.arrays.backend_numpy import NUMPY
from alphaswarm_rl.core.contracts import EnvRequest
from alphaswarm_rl.core.errors import EnvError
from alphaswarm_rl.envs.base import BaseRLEnv
from alphaswarm_rl.envs.parts import Part
from alphaswarm_rl.envs.trading_plan import END_OF_DATA, TradingPlan
from alphaswarm_rl.market.accounts_numpy import NumpyAccounts
from alphaswarm_rl.market.average_cost import average_cost
from alphaswarm_rl.market.market import market_of
from alphaswarm_rl.market.view import ARRAYS, View

Array = np.ndarray[Any, Any]


class TradingEnv(BaseRLEnv):
    """Accounts on one market, stepped together.

    Within a step come the action, the portfolio stages, the fill, the mark at the next bar's close, the terminations,
    the reward, and the observation. `infos` holds arrays: `portfolio_value`, `nav_return`, `cash`, `drawdown`,
    `turnover`, `cost`, `carry`, `step_idx`, `timestamp`, `improper_stop`, `turbulence` where the market has it, and
    `reward_terms` by name, which sum to the reward; where an episode ended, `reason` says why and `_reason` for whom;
    where positions were closed by force, `closed` holds the units by reason: `asset_end`, `margin_call`, `bracket`. On
    an episode's last step they are the ended episode's.

    Args:
        request: How many are wanted.
        plan: What they are made of.
    """

    def __init__(self, request: EnvRequest, plan: TradingPlan) -> None:
        n, panel = request.num_envs, plan.panel
        self.plan = plan
        names = [builder.names(panel) for builder in plan.builders]
        self.feature_names = tuple(name for its in names for name in its)
        super().__init__(
            request,
            observation_space=Box(-np.inf, np.inf, (len(self.feature_names),), np.float32),
            action_space=plan.action.space(panel),
        )
        self.market = market_of(panel, plan.fill, NUMPY)
        self.trade = plan.action.trade(panel)
        self.view = View(self.market, plan.initial_cash, n)
        self._wanted = np.empty(n if self.trade.way == "position" else (n, panel.num_assets))
        self._accounts = NumpyAccounts(self.view, self._wanted, self.trade, plan.costs, plan.margin)
        if plan.tracks_cost:
            self.view.average_cost = np.zeros((n, panel.num_assets))
        self._action = Part(plan.action, self.market, n)
        edges = np.cumsum([0, *(len(its) for its in names)]).tolist()
        self._builders = [
            (slice(*edges[i : i + 2]), Part(builder, self.market, n)) for i, builder in enumerate(plan.builders)
        ]
        self._terms = [(named.name, named.weight, Part(named.term, self.market, n)) for named in plan.terms]
        self._terminations = [Part(termination, self.market, n) for termination in plan.terminations]
        self._stages = [Part(stage, self.market, n) for stage in plan.stages]
        self._exits = self._leave if self.trade.bracket else None
        self._turbulence = (
            self.market.market_features[:, panel.market_feature_names.index("turbulence")]
            if "turbulence" in panel.market_feature_names
            else None
        )
        self._discrete = self.single_action_space.dtype.kind in "iu"  # type: ignore[union-attr]
        self.begin(self._all, np.zeros((n, 1)))
        if plan.action.mask(self.view, self._action.state) is not None:
            self.action_masks = self._masks

    def begin(self, rows: Array, draws: Array) -> None:
        """All cash, on the episode's first bar."""
        plan, view = self.plan, self.view
        start = plan.first_bar + (draws[:, 0] * plan.starts).astype(np.int64)
        for _, array in self._accounts_of(view):
            array[rows] = 0
        view.bar[rows] = view.start[rows] = start
        view.last[rows] = start + plan.length
        for name in ("cash", "value", "value_before", "peak"):
            getattr(view, name)[rows] = plan.initial_cash
        for part in self._parts():
            part.begin(rows)

    def advance(self, actions: Array) -> tuple[Array, Array, Array, dict[str, Any]]:
        """Acts, fills, marks, judges, rewards."""
        view = self.view
        view.action = self._checked(actions)
        wanted = self._wanted
        self._action.step(view, wanted)
        for stage in self._stages:
            stage.step(view, wanted)
        if self.plan.turbulence_threshold is not None:
            self._gate(wanted)
        view.value_before[:] = view.value
        self._accounts.step(self._exits)
        np.maximum(view.peak, view.value, out=view.peak)
        if view.average_cost is not None:
            view.average_cost[:] = average_cost(view)
        reasons = self._judge()
        rewards, terms = self._reward()
        infos = self._infos(terms)
        if reasons is not None:
            infos["reason"], infos["_reason"] = reasons, view.terminated | view.truncated
        return rewards, view.terminated.copy(), view.truncated.copy(), infos

    def observe(self, rows: Array) -> Array:
        """What these environments show."""
        out = np.empty((len(rows), len(self.feature_names)), np.float32)
        if rows is self._all:
            for columns, part in self._builders:
                part.step(self.view, out[:, columns])
            return out
        view = self.view.rows(rows)
        for columns, part in self._builders:
            part.step_rows(view, rows, out[:, columns])
        return out

    def identity(self) -> dict[str, Any]:
        """Its market and parts."""
        return self.plan.identity()

    def arrays(self) -> dict[str, Array]:
        """Accounts and the parts' own arrays."""
        own = {f"account/{name}": array for name, array in self._accounts_of(self.view)}
        for index, part in enumerate(self._parts()):
            own |= {f"part{index}/{name}": array for name, array in part.own.items()}
        return own

    @staticmethod
    def _accounts_of(view: View) -> list[tuple[str, Array]]:
        arrays = [(name, getattr(view, name)) for name in ARRAYS if name != "action"]
        return [(name, array) for name, array in arrays if array is not None]

    def _parts(self) -> list[Part]:
        builders = [part for _, part in self._builders]
        terms = [part for _, _, part in self._terms]
        return [self._action, *builders, *terms, *self._terminations, *self._stages]

    def _masks(self) -> Array:
        return np.asarray(self.plan.action.mask(self.view, self._action.state))

    def _leave(self) -> Array:
        return np.asarray(self.plan.action.exits(self.view, self._action.state))

    def _gate(self, wanted: Array) -> None:
        """Sells everything and buys nothing where the market is in turmoil."""
        assert self._turbulence is not None
        stop = self._turbulence[self.view.bar] >= self.plan.turbulence_threshold
        if np.count_nonzero(stop):
            wanted[stop] = -self.view.positions[stop] if self.trade.way == "shares" else 0.0

    def _judge(self) -> Array | None:
        """Sets the flags; the reasons of episodes that ended, if any did."""
        view = self.view
        np.greater_equal(view.bar, view.last, out=view.truncated)
        fired = self._fired() if self._terminations else ()
        if not fired:
            # Nothing failed: most steps, and worth being quick about.
            view.terminated.fill(False)
            view.improper_stop.fill(False)
            return np.where(view.truncated, END_OF_DATA, "") if np.count_nonzero(view.truncated) else None
        view.terminated[:] = np.logical_or.reduce([hit for _, improper, hit in fired if improper] or [False])
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
        for part in self._terminations:
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
        if self._turbulence is not None:
            infos["turbulence"] = self._turbulence[view.bar]
        if self._accounts.closed:
            infos["closed"] = dict(self._accounts.closed)
        return infos

    def _checked(self, actions: Array) -> Array:
        actions = np.asarray(actions)
        if actions.shape != self.action_space.shape or actions.dtype.kind not in ("iu" if self._discrete else "iuf"):
            raise EnvError(
                f"actions of shape {actions.shape} and type {actions.dtype}",
                f"this environment takes {self.action_space}",
                "Give one action per environment.",
            )
        # One look at the sum tells whether any is not a number.
        if self._discrete:
            self._refuse_unknown(actions)
        elif not math.isfinite(np.add.reduce(actions, axis=None)) and not np.isfinite(actions).all():
            row = int(np.argwhere(~np.isfinite(actions))[0][0])
            raise EnvError(f"the action of environment {row}", "it is not a finite number", "Mend the policy.")
        return actions

    def _refuse_unknown(self, actions: Array) -> None:
        space: Any = self.single_action_space
        wrong = (actions < 0) | (actions >= (space.n if hasattr(space, "n") else space.nvec))
        if np.count_nonzero(wrong):
            row = int(np.argwhere(wrong)[0][0])
            raise EnvError(f"action {actions[row]} of environment {row}", f"it is not in {space}", "Give one that is.")

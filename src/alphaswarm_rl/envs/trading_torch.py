"""The composed trading environment in torch: what runs on a GPU.

A step has two halves. The first, `advance`, is one function of tensors, which compiled is a few kernels: the decision
step, terminations, rewards, and the next episode of whatever ended. It gives the accounts at the end of the step beside
the state after resets, and in the second half the observer's builders look at both and write straight into the caller's
storage. Their arrays are changed by the second half alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from alphaswarm_rl.arrays.backend import torch_device
from alphaswarm_rl.arrays.backend_torch import TorchBackend, float64_by_default
from alphaswarm_rl.arrays.counter_rng_torch import uniform
from alphaswarm_rl.core.contracts import EnvRequest, episode_key
from alphaswarm_rl.core.errors import EnvError
from alphaswarm_rl.core.types import JsonObject
from alphaswarm_rl.core.view import ARRAYS, View
from alphaswarm_rl.envs.base_torch import Tensors, TorchVectorEnv
from alphaswarm_rl.envs.episodes import START_STREAM, checked_request
from alphaswarm_rl.envs.trading_plan import END_OF_DATA, STARTING_MONEY, TradingParts, TradingPlan
from alphaswarm_rl.market.decision_step_torch import TorchDecisionStep
from alphaswarm_rl.market.market import market_of
from alphaswarm_rl.market.part import Part
from alphaswarm_rl.market.trade_log import TradeLog, log_names
from alphaswarm_rl.market.trades import TradedNames, TradeTables, names_of

#: Infos that are numbers of the accounts, by what a view calls them.
_INFOS = {
    "value": "portfolio_value",
    "portfolio_return": "nav_return",
    **{name: name for name in ("cash", "drawdown", "turnover", "cost", "carry")},
    "steps": "step_idx",
}
#: What a step leaves alone: it must be copied before the state is written over.
_UNCHANGED = ("account/start", "account/last", "episodes")
_WHOLE = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)


class TorchTradingEnv(TorchVectorEnv):
    """Accounts on one market, stepped together on a device; the twin of `TradingEnv`.

    Nobody can look whether anything ended, or whether actions are sound, without waiting for the device:

    - `final_obs`, `_final_obs`, `reason` and `_reason` are in the infos of every step. Rows of `final_obs` whose
      episode goes on hold finite numbers that mean nothing. `reason` is an index into `reasons`;
    - an action that is not a finite number counts as 0, a discrete one that is out of range as the nearest one.

    `timestamp` is in nanoseconds since 1970.

    Args:
        request: How many are wanted, and where.
        plan: What they are made of.
        compile: Whether to compile the step with `torch.compile`. None: on a GPU where that is possible.

    Attributes:
        reasons: Names of what `infos["reason"]` counts; the first, "", is of episodes that go on.
    """

    def __init__(self, request: EnvRequest, plan: TradingPlan, *, compile: bool | None = None) -> None:  # noqa: A002  (as torch calls it)
        checked_request(request)
        self.plan = plan
        self._backend = TorchBackend(torch_device(request.device))
        self.market = market_of(plan.panel, plan.fill, self._backend)
        with float64_by_default():
            # The arrays of one environment are how an episode begins for all of them.
            self._parts = TradingParts(plan, self.market, 1)
        self._begun: Tensors = self._parts.arrays()
        decider = self._parts.decider
        self.feature_names = self._parts.observer.feature_names
        self.trade = decider.trade
        self.reasons = ("", END_OF_DATA, *(termination.rl_alias for termination in plan.terminations))
        self._decision = TorchDecisionStep(self.market, decider, plan.costs, plan.margin, plan.sizing)
        self._timestamps = self._backend.put(plan.panel.timestamps.astype("datetime64[ns]").astype(np.int64))
        gauge = () if self.market.turbulence is None else ("turbulence",)
        self._info_names = (*_INFOS.values(), "timestamp", "improper_stop", "reason", *gauge)
        self._account_names = [
            name for name in ARRAYS if name != "action" and (name != "average_cost" or plan.tracks_cost)
        ]
        super().__init__(
            request, observation_space=self._parts.observer.space, action_space=decider.space, compile=compile
        )
        #: What is logged of each step; nothing before somebody asks for it.
        self._log_names: tuple[str, ...] = ()
        self._discrete = self.single_action_space.dtype.kind in "iu"  # type: ignore[union-attr]
        builders = tuple(f"part{index}/" for index in range(1, 1 + len(plan.builders)))
        self.step_names = tuple(name for name in self._state if not name.startswith(builders))
        if self._masks() is not None:
            self.action_masks = self._masks

    @property
    def view(self) -> View:
        """The accounts as they are now."""
        return self._view(self._state)

    @property
    def traded_names(self) -> TradedNames:
        """What the numbers of its actions, targets and positions are about."""
        return names_of(self._parts.decider, self.market)

    def log_trades(self) -> TradeTables:
        """From now on infos hold `trades`: tensors of what each step did, asset by asset.

        Returns:
            What turns them into positions and fills, on the host.
        """
        if not self._log_names:
            decider = self._parts.decider
            stops, limited = decider.stops_orders, bool(decider.limits)
            self._log_names = log_names(self.market, self.trade, self.plan.margin, stops=stops, limited=limited)
            self.step_anew()
        return TradeTables.of(self._parts.decider, self.market, self.plan.costs)

    def identity(self) -> JsonObject:
        """Its market and parts."""
        return self.plan.identity()

    def initial(self) -> Tensors:
        """All cash, on the first bar."""
        return self._begun_at(self._first_bars())

    def beginning(self, words: Tensor, episodes: Tensor) -> Tensors:
        """All cash, on the first bar of these episodes."""
        return self._begun_at(self._starts(words, episodes))

    def observe(self) -> Tensor:
        """What the builders show; what they remember is kept."""
        observations: Tensor = self._parts.holding(self._state).observer.observe(self.view, self._empty())
        return observations

    def step_into(self, actions: Tensor, observations: Tensor, final: Tensor) -> tuple[Tensor, ...]:
        """Steps, writes the observations, and gives rewards, flags, infos and reward terms."""
        count = 4 + len(self._info_names) + len(self.plan.terms) + len(self._log_names)
        results = self.run(actions)
        before = self._view(dict(zip(self.step_names, results[count:], strict=True)))
        observer = self._parts.holding(self._state).observer
        observer.observe_ends(self._parts.observer, before, self.view, results[3], observations, final)
        return results[:count]

    def infos(self, results: Sequence[Tensor]) -> dict[str, Any]:
        """Numbers of the accounts by name, reward terms, and where episodes ended."""
        ended, *rest = results
        infos: dict[str, Any] = dict(zip(self._info_names, rest, strict=False))
        terms = rest[len(self._info_names) :]
        infos["reward_terms"] = {named.name: term for named, term in zip(self.plan.terms, terms, strict=False)}
        if self._log_names:
            infos["trades"] = dict(zip(self._log_names, terms[len(self.plan.terms) :], strict=True))
            if self.plan.stages:
                infos["rl_pipeline_history"] = self._parts.decider.history(infos["trades"]["targets"])
        infos["_reason"] = infos["_final_obs"] = ended
        return infos

    def checked(self, actions: Tensor) -> Tensor:
        """The actions, refused where they are of another shape, type or device."""
        if not self._fits(actions) or (self._discrete and actions.dtype not in _WHOLE):
            found = (
                f"of shape {tuple(actions.shape)} and type {actions.dtype} on {actions.device}"
                if isinstance(actions, Tensor)
                else f"as {type(actions).__name__}"
            )
            shape = (self.num_envs, *(self.single_action_space.shape or ()))
            raise EnvError(
                f"actions {found}",
                f"this environment takes a tensor of shape {shape} on {self.device} for {self.single_action_space}",
                "Give one action per environment, on its device.",
            )
        return actions.contiguous()

    # The first half of a step: one function of tensors.

    def advance(self, words: Tensor, actions: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        """All results of a step but observations, in a row, the last of them the state at its end."""
        old = dict(zip(self.step_names, state, strict=True))
        view = self._view(old)
        parts = self._parts.holding({name: array.clone() for name, array in old.items() if name in self._begun})
        log = TradeLog(view) if self._log_names else None
        self._decision.step(view, parts.decider, actions, log)
        reason = self._judge(view, parts.terminations)
        terms = self._reward(view, parts.terms)
        ended = view.terminated | view.truncated
        new = {f"account/{name}": getattr(view, name) for name in self._account_names} | parts.arrays()
        before = {name: old[name].clone() if name in _UNCHANGED else new[name] for name in self.step_names}
        flags = (view.terminated, view.truncated, ended)
        logged = () if log is None else log.arrays(view, self._log_names).values()
        results = (view.reward, *flags, *self._account_infos(view, reason), *terms, *logged, *before.values())
        for name, array in self._restarted(words, before, ended).items():
            old[name].copy_(array)
        return results

    def _judge(self, view: View, terminations: Sequence[Part]) -> Tensor:
        """Sets the flags; gives the reasons."""
        view.terminated = torch.zeros_like(view.terminated)
        view.truncated = view.bar >= view.last
        failures: list[tuple[int, Tensor]] = []
        truncations: list[tuple[int, Tensor]] = []
        for code, (termination, part) in enumerate(zip(self.plan.terminations, terminations, strict=True), start=2):
            hit = torch.empty_like(view.truncated)
            part.step(view, hit)
            if termination.improper:
                failures.append((code, hit))
                view.terminated = view.terminated | hit
            else:
                truncations.append((code, hit))
                view.truncated = view.truncated | hit
        view.truncated = view.truncated & ~view.terminated
        view.improper_stop = view.terminated.clone()
        reason = view.truncated.to(torch.int8)
        # The first that fired names the end; a failure goes before anything else.
        for code, hit in reversed(failures + truncations):
            reason = torch.where(hit, torch.full_like(reason, code), reason)
        return reason

    def _reward(self, view: View, parts: Sequence[Part]) -> list[Tensor]:
        view.reward = torch.zeros_like(view.value)
        terms = []
        for named, part in zip(self.plan.terms, parts, strict=True):
            amount = torch.empty_like(view.value)
            part.step(view, amount)
            if named.weight != 1.0:
                amount = amount * named.weight
            terms.append(amount)
            view.reward = view.reward + amount
        return terms

    def _account_infos(self, view: View, reason: Tensor) -> tuple[Tensor, ...]:
        """In the order of their names."""
        numbers = (getattr(view, name) for name in _INFOS)
        infos = (*numbers, self._timestamps[view.bar], view.improper_stop, reason)
        return infos if self.market.turbulence is None else (*infos, self.market.turbulence[view.bar])

    def _restarted(self, words: Tensor, before: Tensors, ended: Tensor) -> Tensors:
        """The state after the step: ended episodes are followed by their next."""
        episodes = before["episodes"] + ended.to(torch.int64)
        account = self._account(self._starts(words, episodes))
        begun = self._begun | {f"account/{name}": value for name, value in account.items()}
        state = {name: self._backend.xp.by_row(ended, begun.get(name, False), array) for name, array in before.items()}
        return {**state, "episodes": episodes}

    def _starts(self, words: Tensor, episodes: Tensor) -> Tensor:
        """The first bar of those episodes."""
        if self.plan.starts == 1:
            return self._first_bars()
        first, second = episode_key(self._phase, self.num_envs, self._index, episodes)
        draw = uniform(words, first, second, START_STREAM, 1)[:, 0]
        return self.plan.first_bar + (draw * self.plan.starts).to(torch.int64)

    def _first_bars(self) -> Tensor:
        return torch.full_like(self._index, self.plan.first_bar)

    def _account(self, start: Tensor) -> dict[str, Any]:
        """What an account begins with; what is not here begins with nothing."""
        money = dict.fromkeys(STARTING_MONEY, self.plan.initial_cash)
        return {"bar": start, "start": start, "last": start + self.plan.length, **money}

    def _begun_at(self, start: Tensor) -> Tensors:
        """The state as all episodes begin, at these bars."""
        view = View(self.market, self.plan.initial_cash, self.num_envs)
        view.average_cost = torch.zeros_like(view.positions)
        begun = self._account(start)
        account = {
            f"account/{name}": getattr(view, name) + begun[name] if name in begun else getattr(view, name)
            for name in self._account_names
        }
        return account | {
            name: array.repeat(self.num_envs, *[1] * (array.dim() - 1)) for name, array in self._begun.items()
        }

    def _view(self, state: Tensors) -> View:
        arrays = {name: state[f"account/{name}"] for name in self._account_names}
        return View.of(self.market, self.plan.initial_cash, arrays)

    def _masks(self) -> Any:
        with torch.no_grad(), float64_by_default():
            return self._parts.holding(self._state).decider.masks(self.view)

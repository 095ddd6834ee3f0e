"""The bridge by which the strategies of engines ask a policy.

A strategy finds it in its context as `rl_agent` and consults it once per bar. The bridge makes the observation, asks
the policy and takes its action through the portfolio stages. A policy that fails does not end a backtest: what was
decided last is held, and an alarm says so.
"""

from __future__ import annotations

import abc
import asyncio
import logging
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from alphaswarm_rl.core.orders import TargetWeights
from alphaswarm_rl.core.types import Array
from alphaswarm_rl.core.view import View
from alphaswarm_rl.execution.decision import Decision
from alphaswarm_rl.market.decider import Decider
from alphaswarm_rl.market.decision_step_numpy import ActionCheck
from alphaswarm_rl.market.observer import Observer

_log = logging.getLogger(__name__)

#: The one account of a session.
_ROW = np.arange(1)


class AskedPolicy(Protocol):
    """What a bridge asks of a policy; `core.contracts.TrainedPolicy` has it."""

    def act(self, observation: Array, episode_start: Array, *, deterministic: bool, masks: Array | None) -> Array:
        """One action per observation; nothing is remembered where an episode starts."""


@dataclass(frozen=True, eq=False)
class RLDecision:
    """What a policy was asked and answered at one bar.

    Attributes:
        timestamp: The bar whose close it had seen.
        assets: The symbols, in the order of targets.
        way: What targets are: `weights`, `shares` or `position`.
        decision: What is to be traded; None: nothing.
        raw_action: What the policy answered; None where it failed.
        history: The targets (1, A) after each stage, by the name of the stage.
        call: How often the policy was asked in this episode, this time included.
        alarm: Why what was decided last is held; None where the policy answered.
    """

    timestamp: np.datetime64
    assets: tuple[str, ...]
    way: str
    decision: Decision | None
    raw_action: Array | None
    history: tuple[tuple[str, Array], ...]
    call: int
    alarm: str | None = None

    def target_weights(self, leverage: float = 1.0) -> TargetWeights | None:
        """What passes on to whoever trades; None where nothing was decided, or something else than weights.

        Args:
            leverage: The largest sum of absolute weights that is no mistake.
        """
        decision = self.decision
        if decision is None or self.way != "weights":
            return None
        return TargetWeights(self.assets, decision.targets[0], self.timestamp, leverage)


class BaseRLAgentBridge(abc.ABC):
    """What strategies find as `rl_agent`.

    Attributes:
        calls: How often it was consulted in this episode.
        last_decision: The last decision of this episode; None before the first.
        alarms: Why the policy failed, each time in this episode.
    """

    def __init__(self) -> None:
        self.calls = 0
        self.last_decision: RLDecision | None = None
        self.alarms: list[str] = []

    def consult(self, account: View) -> RLDecision:
        """The decision for an account at its bar; called once per bar, in order."""
        self.calls += 1
        self.last_decision = self._decide(account)
        return self.last_decision

    async def consult_async(self, account: View) -> RLDecision:
        """The same, without holding up the event loop."""
        return await asyncio.to_thread(self.consult, account)

    def reset(self) -> None:
        """Begins an episode: nothing before it is remembered."""
        self.calls, self.last_decision = 0, None
        self.alarms = []

    @abc.abstractmethod
    def _decide(self, account: View) -> RLDecision:
        """What it decides."""


class NoopRLAgentBridge(BaseRLAgentBridge):
    """An agent that never trades: what strategies find where nobody attached one."""

    def _decide(self, account: View) -> RLDecision:
        return RLDecision(_now(account), _assets(account), "weights", None, None, (), self.calls)


class RLAgentBridge(BaseRLAgentBridge):
    """A policy, what it sees, and what becomes of its actions.

    Args:
        policy: The policy.
        observer: Makes its observations, of one account.
        decider: Makes targets of its actions, of one account.
        deterministic: Whether it acts without drawing.
    """

    def __init__(
        self, policy: AskedPolicy, observer: Observer, decider: Decider, *, deterministic: bool = True
    ) -> None:
        super().__init__()
        self.observer, self.decider = observer, decider
        self._policy, self._deterministic = policy, deterministic
        self._check, self._way = ActionCheck(decider.space, 1), decider.trade.way

    def reset(self) -> None:
        """Begins an episode."""
        super().reset()
        self.observer.begin(_ROW)
        self.decider.begin(_ROW)

    def _decide(self, account: View) -> RLDecision:
        try:
            action = self._ask(account)
            decision = self._through_stages(account, action)
        except Exception as error:  # noqa: BLE001  (whatever a policy raises: the account must not stand still)
            return self._held(account, error)
        history = tuple(zip(self.decider.stage_names, decision.trace, strict=True))
        return RLDecision(_now(account), _assets(account), self._way, decision, action, history, self.calls)

    def _ask(self, account: View) -> Array:
        observation = self.observer.observe(account)
        masks = self.decider.masks(account)
        starts = np.array([self.calls == 1])
        legal = None if masks is None else np.asarray(masks)
        answer = self._policy.act(observation, starts, deterministic=self._deterministic, masks=legal)
        return self._check.checked(np.asarray(answer))

    def _through_stages(self, account: View, action: Array) -> Decision:
        trace: list[Array] = []
        measured: list[Array] = []
        targets = self.decider.decide(account, action, None, trace, measured)
        stopped = np.asarray(self.decider.stopped(account)) if self.decider.stops_orders else None
        brackets = self.decider if self.decider.trade.bracket else None
        return Decision(targets, tuple(trace), stopped, tuple(measured), brackets)

    def _held(self, account: View, error: Exception) -> RLDecision:
        """The last decision once more; orders in units are not repeated."""
        alarm = f"{_now(account)}: {type(error).__name__}: {error}"
        self.alarms.append(alarm)
        _log.error("the policy failed and what it decided last is held: %s", alarm, exc_info=error)
        last = self.last_decision
        repeats = self._way == "weights" and last is not None
        decision, history = (last.decision, last.history) if repeats and last is not None else (None, ())
        return RLDecision(_now(account), _assets(account), self._way, decision, None, history, self.calls, alarm)


def _assets(account: View) -> tuple[str, ...]:
    return account.market.panel.assets


def _now(account: View) -> np.datetime64:
    now: np.datetime64 = account.market.panel.timestamps[account.bar[0]]
    return now

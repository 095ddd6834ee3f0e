"""What happens to trading accounts while a policy is judged: values, costs, and the profit of each asset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from alphaswarm_rl.actions.continuous_weights import ContinuousWeights
from alphaswarm_rl.arrays.backend_numpy import NUMPY
from alphaswarm_rl.core.account_evidence import AccountEvidence
from alphaswarm_rl.core.types import Array, JsonMapping
from alphaswarm_rl.core.view import View
from alphaswarm_rl.envs.trading_plan import STARTING_MONEY, TradingPlan
from alphaswarm_rl.market.decider import Decider
from alphaswarm_rl.market.decision_step_numpy import NumpyDecisionStep
from alphaswarm_rl.market.market import market_of
from alphaswarm_rl.recording.steps import as_numpy
from alphaswarm_rl.statistics.allocations import equal_weights
from alphaswarm_rl.statistics.performance import account_measures, compounded, max_drawdown, returns_of

if TYPE_CHECKING:
    from alphaswarm_rl.core.contracts import AnyVectorEnv

#: What account statistics need of every step, by its name in `infos`.
_ACCOUNT_INFOS = ("portfolio_value", "turnover", "cost")
#: Positions that are closed at a bar's close, after its fill, by their reason in `infos`.
_CLOSED_LAST = ("asset_end", "margin_call")
#: Most periods of a curve that are kept as evidence: more bars are put together.
MOST_PERIODS = 1000


@dataclass(frozen=True)
class PlayedAccount:
    """One episode of a trading account.

    Attributes:
        measures: Its performance, by name.
        values: Its values, the initial one first.
        profits: The profit of each asset before costs, (A,).
    """

    measures: dict[str, float]
    values: Array
    profits: Array


class AccountHistory:
    """The steps of trading accounts, from which each episode's performance and the profit of each asset are computed.

    Args:
        plan: What the environment is made of.
        env: The environments, which stand at the start of their episodes.
    """

    def __init__(self, plan: TradingPlan, env: AnyVectorEnv) -> None:
        self._plan = plan
        self._steps: list[Array] = []
        self._first_step = np.zeros(env.num_envs, dtype=np.int64)
        self._profits = _AssetProfits(env)

    def add(self, infos: JsonMapping, ended: Array) -> None:
        """Takes in one step of all environments."""
        self._steps.append(np.stack([infos[name] for name in _ACCOUNT_INFOS]))
        self._profits.add(infos, ended)

    def end_episode(self, index: int) -> PlayedAccount:
        """One account in the episode that ends here; its next step begins another."""
        episode = self._steps[self._first_step[index] :]
        self._first_step[index] = len(self._steps)
        values, turnover, cost = np.stack([step[:, index] for step in episode], axis=1)
        curve = np.concatenate([[self._plan.initial_cash], values])
        measures = account_measures(curve, turnover, cost, self._plan.panel.periods_per_year)
        return PlayedAccount(measures, curve, self._profits.end_episode(index))


class _AssetProfits:
    """The profit of each asset: what is held times how its price moves, before and after the fill of a bar.

    An environment that ended its episode has its next one's positions already. In an episode's last bar what was held
    before is therefore taken for held to the end.
    """

    def __init__(self, env: AnyVectorEnv) -> None:
        inner: Any = env.unwrapped
        market = inner.market
        self._view = inner.view
        self._close, self._fill_price = as_numpy(market.close), as_numpy(market.fill_price)
        self._splits = None if market.splits is None else as_numpy(market.splits)
        self._dividends = None if market.dividends is None else as_numpy(market.dividends)
        self._lag = market.fill.lag
        self._total = np.zeros((env.num_envs, market.assets))
        self._remember()

    def add(self, infos: JsonMapping, ended: Array) -> None:
        before, bar = self._positions, self._bar
        self._remember()
        split = 1.0 if self._splits is None else self._splits[bar + 1]
        dividend = 0.0 if self._dividends is None else self._dividends[bar + 1]
        closed = sum(as_numpy(infos["closed"][reason]) for reason in _CLOSED_LAST if reason in infos.get("closed", ()))
        held = np.where(ended[:, None], before * split, self._positions - closed)
        seen, fill, last = self._close[bar], self._fill_price[bar + self._lag], self._close[bar + 1]
        if self._lag:
            self._total += before * (split * (fill + dividend) - seen) + held * (last - fill)
        else:
            self._total += before * (fill - seen) + held * (last + dividend - fill / split)

    def end_episode(self, index: int) -> Array:
        found: Array = self._total[index].copy()
        self._total[index] = 0.0
        return found

    def _remember(self) -> None:
        self._positions, self._bar = as_numpy(self._view.positions).copy(), as_numpy(self._view.bar).copy()


def account_evidence(plan: TradingPlan, episodes: Sequence[PlayedAccount]) -> AccountEvidence:
    """What episodes that repeat no other one leave for gates.

    All begin on the window's first bar. An account whose episode ended early has a return of 0 from there on.
    """
    bars = max(len(episode.values) for episode in episodes) - 1
    returns = np.zeros((len(episodes), bars))
    for row, episode in zip(returns, episodes, strict=True):
        row[: len(episode.values) - 1] = returns_of(episode.values)
    together = -(-bars // MOST_PERIODS)
    mean, equal = (
        compounded(found, together) for found in (returns.mean(axis=0), returns_of(equal_weight_values(plan, bars)))
    )
    profits = np.mean([episode.profits for episode in episodes], axis=0)
    return AccountEvidence(
        bars=bars,
        periods_per_year=plan.panel.periods_per_year / together,
        returns=_rounded(mean),
        equal_weight=_rounded(equal),
        max_drawdown=min(float(max_drawdown(episode.values)) for episode in episodes),
        profits=dict(zip(plan.panel.assets, profits.tolist(), strict=True)),
    )


def _rounded(returns: Array) -> tuple[float, ...]:
    """Returns by nine digits: they are stored as text."""
    return tuple(float(f"{value:.9g}") for value in returns)


def equal_weight_values(plan: TradingPlan, bars: int) -> Array:
    """What an account is worth that holds equal weights from the plan's first bar on, the initial value first.

    It trades by the same decision step, at the same fills and costs. What the plan's action, stages and turbulence
    threshold would make of it is left out: they are the policy's business.
    """
    market = market_of(plan.panel, plan.fill, NUMPY)
    decider = Decider(ContinuousWeights(), (), market, 1)
    view = View(market, plan.initial_cash, 1)
    view.bar[:] = view.start[:] = plan.first_bar
    view.last[:] = plan.last_bar
    for name in STARTING_MONEY:
        getattr(view, name)[:] = plan.initial_cash
    decider.begin(np.arange(1))
    decision = NumpyDecisionStep(view, decider, plan.costs, plan.margin, plan.sizing)
    values = [plan.initial_cash]
    for bar in range(plan.first_bar, plan.first_bar + bars):
        decision.step(equal_weights(plan.panel, bar)[np.newaxis].astype(np.float32))
        values.append(float(view.value[0]))
    return np.array(values)

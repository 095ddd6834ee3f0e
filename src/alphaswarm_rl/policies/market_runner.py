"""The built policies that look at a market: rules for target weights, and the runner that acts by such a rule.

An allocation is a function of the panel and a bar: it gives the weights (A,) of a decision at that bar, from what is
known at its close.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, cast

import numpy as np
from gymnasium.spaces import Box

from alphaswarm_rl.core.contracts import AnyVectorEnv, PolicyRequest, State
from alphaswarm_rl.core.errors import CheckpointError, ComponentError
from alphaswarm_rl.core.types import AnySpace, Array, BackendArray, Batch
from alphaswarm_rl.market.panel import MarketPanel
from alphaswarm_rl.policies.runners import batch_size

#: Target weights (A,) of a decision at a bar, from the panel's rows up to that bar.
Allocation = Callable[[MarketPanel, int], Array]

#: Returns that differ by no more have no variance to speak of.
_STILL = 1e-12


def equal_weights(panel: MarketPanel, bar: int) -> Array:
    """The same weight for every asset that can be traded at that bar; all 0 where none can."""
    tradable = _tradable(panel, bar)
    return tradable / max(int(tradable.sum()), 1)


def trailing_returns(panel: MarketPanel, bar: int, lookback: int) -> Array:
    """The simple returns of the `lookback` bars up to that one, (lookback, A); NaN where a price is missing.

    They are what a holder gets, dividends and splits included; adjusted prices already contain them.
    """
    rows = slice(bar - lookback + 1, bar + 1)
    after, before = panel.close[rows], panel.close[bar - lookback : bar]
    if panel.dividends is not None:
        after = after + panel.dividends[rows]
    if panel.splits is not None:
        after = after * panel.splits[rows]
    return after / before - 1.0


@dataclass(frozen=True)
class MeanRiskWeights:
    """Optimal weights by mean and variance of trailing returns: long only, and fully invested.

    Only assets take part that can be traded at the bar, have a price on every bar of the lookback, and moved in it.
    Where the lookback is not there yet, or fewer than two assets take part, weights are equal.

    Attributes:
        policy: The policy's alias, for errors.
        lookback: How many returns are looked at.
        objective: Least variance; or the highest mean - risk_aversion * variance, both per bar.
        risk_aversion: What variance costs, for the utility.
    """

    policy: str
    lookback: int
    objective: Literal["minimum_variance", "utility"]
    risk_aversion: float = 1.0

    def __call__(self, panel: MarketPanel, bar: int) -> Array:
        """The weights (A,) of a decision at that bar."""
        if bar < self.lookback:
            return equal_weights(panel, bar)
        returns = trailing_returns(panel, bar, self.lookback)
        # Without a price the difference is NaN, and not above anything.
        known = _tradable(panel, bar) & (np.ptp(returns, axis=0) > _STILL)
        if known.sum() < 2:
            return equal_weights(panel, bar)
        weights = np.zeros(panel.num_assets)
        weights[known] = self._solve(returns[:, known], when=str(panel.timestamps[bar]))
        return weights

    def _solve(self, returns: Array, *, when: str) -> Array:
        from cvxpy import SolverError
        from skfolio.exceptions import NonPositiveVarianceError
        from skfolio.optimization import MeanRisk, ObjectiveFunction

        least = self.objective == "minimum_variance"
        # In units of their spread: a solver's tolerances mean nothing for the tiny variances of short bars.
        spread = returns.std()
        model = MeanRisk(
            objective_function=ObjectiveFunction.MINIMIZE_RISK if least else ObjectiveFunction.MAXIMIZE_UTILITY,
            risk_aversion=self.risk_aversion * spread,
        )
        try:
            found = model.fit(returns / spread).weights_
        except (SolverError, NonPositiveVarianceError, ValueError) as error:
            raise ComponentError(
                f"policy {self.policy!r} at {when}",
                f"no optimal weights were found for {returns.shape[1]} assets: {error}",
                "Look at the prices before that date, or choose another lookback.",
            ) from error
        # A solver keeps its constraints to some digits only.
        solution: Array = np.maximum(found, 0.0)
        solution /= solution.sum()
        return solution


def _tradable(panel: MarketPanel, bar: int) -> Array:
    return np.asarray(panel.tradable[bar] & np.isfinite(panel.close[bar]))


class MarketEnv(Protocol):
    """What these policies read of a trading environment, whose package stands above this one."""

    num_envs: int
    single_action_space: AnySpace
    #: Number of each environment's episode; -1 before the first reset.
    episode_numbers: Array
    #: The plan: panel, action, and all else that does not change.
    plan: Any
    #: The state of accounts and market, batched over environments.
    view: Any


def trading_env(env: AnyVectorEnv | None, policy: str) -> MarketEnv:
    """The trading environment inside any wrappers: it shows its accounts and market, and says what actions mean.

    Args:
        env: The environment that the policy was built for.
        policy: The policy's alias, for the error where there is no market.
    """
    inner: object = env
    while inner is not None:
        if hasattr(inner, "view") and hasattr(inner, "plan"):
            return cast(MarketEnv, inner)
        inner = getattr(inner, "env", None)
    raise ComponentError(
        f"policy {policy!r}",
        f"it looks at a market, and the environment {type(env).__name__} has none"
        if env is not None
        else "it looks at a market, and was given no environment",
        "Use it in a trading environment.",
    )


class MarketRunner:
    """Aims at weights on some bars, and holds what there is on the others.

    The first decision of an episode aims at an allocation, and so does every `every`-th bar after it. An allocation
    depends on the bar alone: environments at one bar share it. Where an order in units is cut by the largest that the
    action allows, the rest of it follows on the next bars.

    Args:
        policy: The policy's alias, for errors.
        request: Where it acts.
        allocate: The weights to aim at.
        every: Bars from one allocation to the next; None: there is one per episode.
    """

    def __init__(self, policy: str, request: PolicyRequest, allocate: Allocation, *, every: int | None) -> None:
        self._policy = policy
        self._env = env = trading_env(request.env, policy)
        self._allocate = allocate
        self._every = every
        self._allocations: dict[int, Array] = {}
        action, space = env.plan.action, env.single_action_space
        if action.encode(env.view, env.view.weights) is None:
            raise ComponentError(
                f"policy {policy!r}",
                f"it aims at weights, and the action {action.rl_alias!r} cannot express them",
                "Choose an action of weights or of shares.",
            )
        #: Which orders were cut on the bar before, (n, A).
        self._cut = np.zeros((env.num_envs, env.plan.panel.num_assets), np.bool_)
        #: The largest orders, where actions are orders in units.
        self._bounds: tuple[Array, Array] | None = None
        by_units = action.trade(env.plan.panel).way == "shares"
        if by_units and isinstance(space, Box) and space.shape == self._cut.shape[1:]:
            self._bounds = space.low, space.high

    def act(self, observation: Batch, *, deterministic: bool) -> BackendArray:
        """Actions for what the environment shows now; nothing here is random, so `deterministic` changes nothing."""
        view = self._env.view
        self._check(observation)
        bar, start = _on_host(view.bar), _on_host(view.start)
        since = bar - start if self._every is None else (bar - start) % self._every
        moving = (since == 0)[:, None] | self._cut
        put = view.market.backend.put
        weights = view.xp.where(put(moving), put(self._targets(bar - since, moving)), view.weights)
        action = self._env.plan.action.encode(view, weights)
        if self._bounds is not None:
            low, high = self._bounds
            orders = _on_host(action)
            self._cut = moving & ((orders <= low) | (orders >= high))
        return action

    def get_state(self) -> State:
        """The orders that were cut; all else is in the environment."""
        return State({"cut": self._cut.copy()})

    def set_state(self, state: State) -> None:
        """Continues from there; a state of another number of environments is refused when it is acted upon."""
        cut = state.arrays.get("cut")
        if cut is None:
            raise CheckpointError(
                f"the state of policy {self._policy!r}", "it has no 'cut'", "Load a checkpoint of this policy."
            )
        self._cut = np.array(cut, np.bool_)

    def _targets(self, decided: Array, moving: Array) -> Array:
        """The allocation (n, A) decided on at these bars, where anything moves."""
        targets = np.zeros(self._cut.shape)
        for row in np.flatnonzero(moving.any(axis=-1)):
            targets[row] = self._allocation(int(decided[row]))
        return targets

    def _allocation(self, bar: int) -> Array:
        if bar not in self._allocations:
            self._allocations[bar] = self._allocate(self._env.plan.panel, bar)
        return self._allocations[bar]

    def _check(self, observation: Batch) -> None:
        n = self._env.num_envs
        if batch_size(observation) != n or self._env.episode_numbers[0] < 0:
            raise ComponentError(
                f"policy {self._policy!r}",
                "it answers what its environment shows, and this observation is not from there",
                "Let it play episodes in the environment instead of sending it observations.",
            )
        if self._cut.shape != (n, self._env.plan.panel.num_assets):
            raise CheckpointError(
                f"the state of policy {self._policy!r}",
                f"it is of {self._cut.shape[0]} environments with {self._cut.shape[1]} assets",
                "Continue with the same environment.",
            )


def _on_host(array: BackendArray) -> Array:
    """An array of any library as NumPy's."""
    return np.asarray(array.cpu() if hasattr(array, "cpu") else array)

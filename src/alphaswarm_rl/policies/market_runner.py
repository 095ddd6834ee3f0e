"""The runner that acts by a rule for target weights.

Such a rule, an allocation, is a function of the panel and a bar: it gives the weights (A,) of a decision at that bar,
from what is known at its close; see `statistics.allocations`.
"""

from __future__ import annotations

from typing import Any, Protocol, cast

import numpy as np
from gymnasium.spaces import Box

from alphaswarm_rl.core.contracts import AnyVectorEnv, PolicyRequest, State
from alphaswarm_rl.core.errors import CheckpointError, ComponentError
from alphaswarm_rl.core.types import AnySpace, Array, BackendArray, Batch
from alphaswarm_rl.policies.runners import batch_size
from alphaswarm_rl.statistics.allocations import Allocation


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

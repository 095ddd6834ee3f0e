"""The built policies that look at a market and aim at weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.spaces import Box

from alphaswarm_rl.core.contracts import PolicyRequest, State
from alphaswarm_rl.core.errors import CheckpointError, ComponentError
from alphaswarm_rl.market.panel import MarketPanel
from alphaswarm_rl.policies.batch import batch_size

Array = np.ndarray[Any, Any]
#: Target weights (A,) of a decision at a bar, from the panel's rows up to that bar.
Allocation = Callable[[MarketPanel, int], Array]


def trading_env(env: Any, policy: str) -> Any:
    """The trading environment inside any wrappers: it shows its accounts and market, and says what actions mean.

    Args:
        env: The environment that the policy was built for.
        policy: The policy's alias, for the error where there is no market.
    """
    inner = env
    while inner is not None:
        if hasattr(inner, "view") and hasattr(inner, "plan"):
            return inner
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
        orders = action.trade(env.plan.panel).way == "shares" and isinstance(space, Box)
        self._bounds = (space.low, space.high) if orders and space.shape == self._cut.shape[1:] else None

    def act(self, observation: Any, *, deterministic: bool) -> Any:
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
            asked = _on_host(action)
            self._cut = moving & ((asked <= low) | (asked >= high))
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

    def _check(self, observation: Any) -> None:
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


def _on_host(array: Any) -> Array:
    """An array of any library as NumPy's."""
    return np.asarray(array.cpu() if hasattr(array, "cpu") else array)

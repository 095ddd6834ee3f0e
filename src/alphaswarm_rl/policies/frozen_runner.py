"""The built policy that was trained before."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from alphaswarm_rl.core.contracts import PolicyRequest, State, TrainedPolicy
from alphaswarm_rl.core.errors import ComponentError
from alphaswarm_rl.policies.batch import batch_size

Array = np.ndarray[Any, Any]


class FrozenRunner:
    """Asks a trained policy, episode by episode.

    Args:
        policy: The trained policy.
        request: Where it acts.
        deterministic: Whether it acts without drawing; None: as it is asked to.
    """

    def __init__(self, policy: TrainedPolicy, request: PolicyRequest, *, deterministic: bool | None) -> None:
        for name in ("observation", "action"):
            theirs, ours = (getattr(each, f"{name}_space") for each in (policy, request))
            if theirs != ours:
                raise ComponentError(
                    "policy 'frozen'",
                    f"it was trained for the {name} space {theirs}, and the environment's is {ours}",
                    "Use it in an environment of the same spaces.",
                )
        self._policy = policy
        self._deterministic = deterministic
        #: What a policy draws from is no part of its state.
        self.resume: Literal["exact", "approximate"] = "exact" if deterministic else "approximate"
        policy.seed(request.seed, request.env)

    def act(self, observation: Any, *, deterministic: bool) -> Array:
        """Actions, as if no episode had started since it was last asked."""
        none = np.zeros(batch_size(observation), np.bool_)
        return self.act_in_episodes(observation, none, deterministic=deterministic)

    def act_in_episodes(
        self, observation: Any, episode_start: Array, *, deterministic: bool, masks: Any = None
    ) -> Array:
        """Actions; what it remembers of an environment is forgotten where an episode starts."""
        asked = deterministic if self._deterministic is None else self._deterministic
        return self._policy.act(observation, episode_start, deterministic=asked, masks=masks)

    def get_state(self) -> State:
        """What it remembers of the episodes in progress."""
        return self._policy.get_state()

    def set_state(self, state: State) -> None:
        """Continues these episodes."""
        self._policy.set_state(state)

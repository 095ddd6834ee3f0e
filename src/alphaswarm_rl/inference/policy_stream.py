"""One client's stream of observations to a policy: stacked frames and memory, for each observation of its batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from alphaswarm_rl.core.contracts import AnyVectorEnv, State
from alphaswarm_rl.core.errors import CheckpointError, RunError
from alphaswarm_rl.core.types import AnyObservation, AnySpace, Array, BackendArray
from alphaswarm_rl.inference.observation_batch import batch_length

if TYPE_CHECKING:
    from alphaswarm_rl.inference.policy import LoadedPolicy


class PolicyStream:
    """A policy as one client asks it, episode after episode; see `core.contracts.TrainedPolicy`.

    Args:
        policy: The policy; streams of one policy share its weights and its draws.
    """

    def __init__(self, policy: LoadedPolicy) -> None:
        self._policy = policy
        self._transform = policy.observation_transform()
        self._memory: object = None
        #: How many observations come at a time; None before the first ones.
        self._length: int | None = None

    @property
    def observation_space(self) -> AnySpace:
        """The space of one observation, before any preprocessing."""
        return self._policy.observation_space

    @property
    def action_space(self) -> AnySpace:
        """The space of one action."""
        return self._policy.action_space

    def seed(self, seed: int, env: AnyVectorEnv | None) -> None:
        """Starts the policy's draws anew, for that environment where there is one."""
        self._policy.seed_predictions(seed, env)

    def act(
        self,
        observation: AnyObservation,
        episode_start: bool | Array = False,
        *,
        deterministic: bool,
        masks: Array | None = None,
    ) -> Array:
        """One action per observation of the batch.

        Args:
            observation: Observations as they come from the environment, as `as_batch` gives them.
            episode_start: Whether an episode begins here, for all or for each; nothing before it is remembered.
            deterministic: Whether it acts without drawing.
            masks: Which actions are legal, for policies that heed masks; None: all.
        """
        length = batch_length(observation)
        starts = np.array(np.broadcast_to(np.asarray(episode_start, dtype=bool), (length,)))
        if self._policy.remembers and self._length not in (None, length):
            raise RunError(
                f"{length} observations",
                f"the policy remembers {self._length} episodes of this asker",
                "Ask for as many at a time as before, or under another name.",
            )
        starts |= self._length is None
        self._length = length
        if self._transform is not None:
            observation = self._transform.apply(observation, starts)
        actions, self._memory = self._policy.predict(
            observation, self._memory, starts, deterministic=deterministic, masks=masks
        )
        return actions

    def get_state(self) -> State:
        """Its memory and its frames of the episodes in progress."""
        memory = memory_to_state(self._memory)
        transform = State() if self._transform is None else self._transform.get_state()
        data = {"memory": memory.data, "transform": transform.data, "length": self._length}
        return State(memory.prefixed("memory") | transform.prefixed("transform"), data)

    def set_state(self, state: State) -> None:
        """Continues these episodes."""
        try:
            self._length = state.data["length"]
            self._memory = memory_from_state(state.part("memory"))
            if self._transform is not None:
                self._transform.set_state(state.part("transform"))
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(
                "the state of policy 'frozen'", f"it cannot be read: {error!r}", "Load a checkpoint of this policy."
            ) from error


def memory_to_state(memory: object) -> State:
    """What `Learner.predict` gave as memory: nothing, an array, a tensor, or a tuple of them."""
    if memory is None:
        return State(data={"kinds": None})
    parts = memory if isinstance(memory, tuple) else (memory,)
    kinds = ["torch" if hasattr(part, "detach") else "numpy" for part in parts]
    arrays = {
        str(index): np.array(part.detach().cpu().numpy() if hasattr(part, "detach") else part)
        for index, (part, kind) in enumerate(zip(parts, kinds, strict=True))
    }
    return State(arrays, {"kinds": kinds, "alone": not isinstance(memory, tuple)})


def memory_from_state(state: State) -> object:
    """The memory, for the next `Learner.predict`; tensors are on the CPU."""
    kinds = state.data["kinds"]
    if kinds is None:
        return None
    parts = tuple(_part(state.arrays[str(index)], kind) for index, kind in enumerate(kinds))
    return parts[0] if state.data["alone"] else parts


def _part(array: Array, kind: str) -> BackendArray:
    if kind == "numpy":
        return np.array(array)
    import torch

    return torch.from_numpy(np.array(array))

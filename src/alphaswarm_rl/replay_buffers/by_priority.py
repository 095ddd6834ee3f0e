"""A replay buffer that draws transitions the more often, the more wrong the learner was about them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from alphaswarm_rl.core.contracts import ReplayRequest, ReplaySample, State
from alphaswarm_rl.core.errors import CheckpointError, ComponentError
from alphaswarm_rl.replay_buffers.tree import SumTree
from alphaswarm_rl.replay_buffers.uniform import UniformReplay

if TYPE_CHECKING:
    from alphaswarm_rl.replay_buffers.prioritized import PrioritizedReplayBuffer

Array = np.ndarray[Any, Any]

#: Priority of what comes before any error is known.
_FIRST_PRIORITY = 1.0


class PriorityReplay(UniformReplay):
    """Transitions with priorities in a tree of sums.

    Args:
        request: What is kept, of how many environments.
        config: Parameters of the buffer.
    """

    prioritized = True

    def __init__(self, request: ReplayRequest, config: PrioritizedReplayBuffer.Config) -> None:
        super().__init__(request, config.capacity)
        self._config = config
        self._sums = SumTree(self.capacity)
        self._largest = _FIRST_PRIORITY
        self._samples = 0

    @property
    def beta(self) -> float:
        """How much of the bias the weights of the next sample take back; 1 is all."""
        return min(1.0, self._config.beta + self._config.beta_increment * self._samples)

    @property
    def priorities(self) -> Array:
        """The priority of each transition, (len,)."""
        return self._sums.leaves[: len(self)].copy()

    def extend(self, rows: Mapping[str, Any]) -> None:
        """Takes single transitions in, with the largest priority there ever was: each is to be drawn soon."""
        self._sums.update(self._ring.write(rows), self._largest)

    def sample(self, batch_size: int) -> ReplaySample:
        """Draws transitions by priority, one from each of `batch_size` equal parts of their sum."""
        self._refuse_empty()
        strata = (np.arange(batch_size) + self._generator.random(batch_size)) / batch_size
        indices = self._sums.find(strata * self._sums.root)
        drawn = self._sums.leaves[indices]
        # (N P)^-beta over the largest of the sample: only the ratio to its smallest priority is left. Over the largest
        # of the whole buffer one transition that is well known would silence all others.
        weights = (drawn.min() / drawn) ** self.beta
        self._samples += 1
        return ReplaySample(self._ring.read(indices), indices, weights)

    def update_priorities(self, indices: Array, errors: Array) -> None:
        """Sets the priorities by the errors of a sample: (|error| + epsilon) to the power of alpha."""
        config = self._config
        sizes = np.abs(np.asarray(errors, np.float64))
        if np.isnan(sizes).any():
            raise ComponentError(
                "the errors for a replay buffer", "some are not a number", "Lower the learning rate, or scale rewards."
            )
        sizes = np.clip(sizes, config.smallest_error, config.largest_error)
        priorities = (sizes + config.epsilon) ** config.alpha
        self._largest = max(self._largest, float(priorities.max()))
        self._sums.update(indices, priorities)

    def clear(self) -> None:
        """Forgets every transition and priority; what is drawn next goes on."""
        super().clear()
        self._largest = _FIRST_PRIORITY
        self._sums.fill(np.empty(0))

    def get_state(self) -> State:
        """Every transition with its priority, the counter of samples and the random generator."""
        state = super().get_state()
        state.arrays["priorities"] = self.priorities
        state.data.update(largest=self._largest, samples=self._samples)
        return state

    def set_state(self, state: State) -> None:
        """Continues from there, bit for bit."""
        priorities = state.arrays.get("priorities")
        if priorities is None or priorities.shape != (state.data["ring"]["size"],):
            raise CheckpointError(
                "the state of a replay buffer",
                "it has no priority for each transition",
                "Load a checkpoint of a prioritised buffer.",
            )
        super().set_state(state)
        self._sums.fill(priorities)
        self._largest, self._samples = float(state.data["largest"]), int(state.data["samples"])

"""A replay buffer that draws transitions the more often, the more wrong the learner was about them.

Priorities are the leaves of a binary tree of sums, so that a draw by priority is a walk from the root to a leaf.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from alphaswarm_rl.core.contracts import ReplayBufferRequest, ReplayBufferSample, State
from alphaswarm_rl.core.errors import CheckpointError, ComponentError
from alphaswarm_rl.core.types import Array
from alphaswarm_rl.replay_buffers.uniform import UniformBuffer

if TYPE_CHECKING:
    from alphaswarm_rl.replay_buffers.components import PrioritizedReplayBuffer

#: Priority of what comes before any error is known.
_FIRST_PRIORITY = 1.0


class PriorityBuffer(UniformBuffer):
    """Transitions with priorities in a tree of sums.

    Args:
        request: What is kept, of how many environments.
        config: Parameters of the buffer.
    """

    prioritized = True

    def __init__(self, request: ReplayBufferRequest, config: PrioritizedReplayBuffer.Config) -> None:
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

    def extend(self, rows: Mapping[str, Array]) -> None:
        """Takes single transitions in, with the largest priority there ever was: each is to be drawn soon."""
        self._sums.update(self._ring.write(rows), self._largest)

    def sample(self, batch_size: int) -> ReplayBufferSample:
        """Draws transitions by priority, one from each of `batch_size` equal parts of their sum."""
        self._refuse_empty()
        strata = (np.arange(batch_size) + self._generator.random(batch_size)) / batch_size
        indices = self._sums.find(strata * self._sums.root)
        drawn = self._sums.leaves[indices]
        # (N P)^-beta over the largest of the sample: only the ratio to its smallest priority is left. Over the largest
        # of the whole buffer one transition that is well known would silence all others.
        weights = (drawn.min() / drawn) ** self.beta
        self._samples += 1
        return ReplayBufferSample(self._ring.read(indices), indices, weights)

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


class SumTree:
    """`count` leaves, 0 at first, each node the sum of its two children. All calls work on whole arrays.

    The leaves are filled up to a power of two, so that every leaf is equally deep. A node is always computed from its
    children, never corrected by a difference: nothing drifts.

    Args:
        count: How many leaves.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._depth = max(count - 1, 0).bit_length()
        self._first = 1 << self._depth
        #: Node i has the children 2i and 2i + 1; the root is node 1.
        self._nodes = np.zeros(2 * self._first)

    @property
    def root(self) -> float:
        """The sum of all leaves."""
        return float(self._nodes[1])

    @property
    def leaves(self) -> Array:
        """A view of the leaves."""
        return self._nodes[self._first : self._first + self._count]

    def update(self, indices: Array, numbers: Array | float) -> None:
        """Sets these leaves; of an index that is there twice the last number counts."""
        nodes = np.asarray(indices) + self._first
        self._nodes[nodes] = numbers
        for _ in range(self._depth):
            nodes = nodes >> 1
            # Brothers compute their parent twice, and the same.
            self._nodes[nodes] = self._nodes[2 * nodes] + self._nodes[2 * nodes + 1]

    def find(self, sums: Array) -> Array:
        """Where the running sum of the leaves passes each of these numbers; never a leaf of 0."""
        rest = np.array(sums, np.float64)
        nodes = np.ones(len(rest), np.int64)
        for _ in range(self._depth):
            left = self._nodes[2 * nodes]
            # A sum that rounding carried beyond the last leaf stays with it.
            right = (rest >= left) & (self._nodes[2 * nodes + 1] > 0)
            rest -= np.where(right, left, 0.0)
            nodes = 2 * nodes + right
        return nodes - self._first

    def fill(self, numbers: Array) -> None:
        """Sets the first leaves to these numbers, and all others to 0."""
        self._nodes[self._first :] = 0.0
        self._nodes[self._first : self._first + len(numbers)] = numbers
        for level in reversed(range(self._depth)):
            parents = slice(1 << level, 2 << level)
            children = self._nodes[2 << level : 4 << level]
            self._nodes[parents] = children[::2] + children[1::2]

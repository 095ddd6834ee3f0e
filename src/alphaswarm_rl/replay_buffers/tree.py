"""A binary tree over numbers that knows their sum, and where a part of it falls."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


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

"""All parameters of a network in one vector, with Adam's two moments in two more.

A `ParameterLayout` is the one table that says which numbers of the vector are which parameter. Everything reads it: the
views that networks compute with, and the named arrays of a checkpoint, which have the names and shapes of torch's
layers whatever the vector looks like.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from alphaswarm_rl.core.types import Array, BackendArray

Shape = tuple[int, ...]


class ParameterLayout:
    """Where each parameter lies in a vector.

    Args:
        shapes: Shapes as torch's layers have them, a weight as (outputs, inputs), in the order of the vector.
        inputs_first: Whether weights lie in the vector as (inputs, outputs) instead.
    """

    def __init__(self, shapes: Mapping[str, Shape], *, inputs_first: bool = False) -> None:
        self._shapes = dict(shapes)
        self._inputs_first = inputs_first
        self._slices: dict[str, slice] = {}
        self.size = 0
        for name, shape in shapes.items():
            self._slices[name] = slice(self.size, self.size + math.prod(shape))
            self.size += math.prod(shape)

    def views(self, vector: BackendArray) -> dict[str, BackendArray]:
        """Every parameter as a view of a vector, as it lies there."""
        return {name: vector[where].reshape(self._stored(name)) for name, where in self._slices.items()}

    def stacked(self, vector: BackendArray, names: Sequence[str]) -> BackendArray:
        """Parameters of one shape that lie side by side as one view, (parameters, *shape)."""
        where = slice(self._slices[names[0]].start, self._slices[names[-1]].stop)
        return vector[where].reshape((len(names), *self._stored(names[0])))

    def to_named(self, vector: BackendArray) -> dict[str, Array]:
        """Copies of the parameters of a vector, by the names and in the shapes of torch's layers."""
        named = {}
        for name, view in self.views(vector).items():
            array = view if isinstance(view, np.ndarray) else view.cpu().numpy()
            named[name] = np.array(array.T if self._turned(name) else array, order="C")
        return named

    def from_named(self, vector: BackendArray, named: Mapping[str, Array]) -> None:
        """Writes named parameters into a vector; another shape is a ValueError."""
        for name, view in self.views(vector).items():
            array = fitting(named, name, self._shapes[name])
            if isinstance(view, np.ndarray):
                view[...] = array.T if self._turned(name) else array
            else:
                view.copy_(view.new_tensor(array, device="cpu"))

    def _stored(self, name: str) -> Shape:
        return self._shapes[name][::-1] if self._turned(name) else self._shapes[name]

    def _turned(self, name: str) -> bool:
        return self._inputs_first and len(self._shapes[name]) == 2


class FlatParameters:
    """Networks whose parameters are one vector, an array or a tensor on any device, and their optimiser's state."""

    layout: ParameterLayout
    parameters: BackendArray
    first_moment: BackendArray
    second_moment: BackendArray
    #: Gradient steps so far.
    steps: int = 0

    def weights(self) -> dict[str, Array]:
        """Copies of the weights by name."""
        return self.layout.to_named(self.parameters)

    def set_weights(self, named: Mapping[str, Array]) -> None:
        """Takes weights over; the optimiser begins anew."""
        self.layout.from_named(self.parameters, named)
        self._restart_optimiser()

    def _restart_optimiser(self) -> None:
        self.first_moment[:] = 0
        self.second_moment[:] = 0
        self.steps = 0

    def optimiser(self) -> tuple[dict[str, Array], dict[str, Array], int]:
        """First and second moments by name, and the count of steps."""
        return self.layout.to_named(self.first_moment), self.layout.to_named(self.second_moment), self.steps

    def set_optimiser(self, first: Mapping[str, Array], second: Mapping[str, Array], steps: int) -> None:
        """Continues with them."""
        self.layout.from_named(self.first_moment, first)
        self.layout.from_named(self.second_moment, second)
        self.steps = steps


def fitting(named: Mapping[str, Array], name: str, shape: Shape) -> Array:
    """The array of that name; another shape is a ValueError, and never spread over the right one."""
    array = np.asarray(named[name])
    if array.shape != shape:
        raise ValueError(f"{name} is of shape {array.shape}, not {shape}")
    return array

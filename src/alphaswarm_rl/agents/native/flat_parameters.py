"""Parameters in one vector, with Adam's moments in two more, and by name in checkpoints."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


class FlatParameters(ABC):
    """Networks whose parameters are one vector: an array, or a tensor on any device."""

    parameters: Any
    #: Gradient steps so far.
    steps: int
    _first: Any
    _second: Any

    @abstractmethod
    def _named(self, vector: Any) -> dict[str, Array]:
        """Copies of the parts of such a vector by the names and in the forms that torch's layers have."""

    @abstractmethod
    def _take(self, vector: Any, named: dict[str, Array]) -> None:
        """Writes the parts into such a vector; another form is a ValueError."""

    def weights(self) -> dict[str, Array]:
        """Copies of the weights by name."""
        return self._named(self.parameters)

    def set_weights(self, named: dict[str, Array]) -> None:
        """Takes weights over; the optimiser begins anew."""
        self._take(self.parameters, named)
        self._first[:] = 0
        self._second[:] = 0
        self.steps = 0

    def optimiser(self) -> tuple[dict[str, Array], dict[str, Array], int]:
        """First and second moments by name, and the count of steps."""
        return self._named(self._first), self._named(self._second), self.steps

    def set_optimiser(self, first: dict[str, Array], second: dict[str, Array], steps: int) -> None:
        """Continues with them."""
        self._take(self._first, first)
        self._take(self._second, second)
        self.steps = steps

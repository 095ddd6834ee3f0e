"""Whose arrays an environment works with: NumPy's on the CPU, or torch's on any device."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np


class Backend(Protocol):
    """What an environment asks of an array library beyond its functions.

    `bar` (n,) says which row of a table (T, C) each environment stands at; results go to `out`, cast on the way.
    """

    #: Array functions under NumPy's names.
    xp: Any

    def put(self, array: np.ndarray[Any, Any]) -> Any:
        """A NumPy array as one of this library, on its device."""
        ...

    def take(self, table: Any, bar: Any, out: Any) -> None:
        """Writes row `bar[i]` to `out[i]`."""
        ...

    def take_columns(self, table: Any, bar: Any, columns: Any, out: Any) -> None:
        """Writes those columns of row `bar[i]` to `out[i]`."""
        ...

    def take_window(self, table: Any, bar: Any, length: int, out: Any) -> None:
        """Writes the `length` rows up to `bar[i]`, oldest first, to `out[i]`, (n, length * C)."""
        ...

    def take_growth(self, table: Any, bar: Any, start: Any, out: Any) -> None:
        """Writes row `bar[i]` over row `start[i]` minus 1 to `out[i]`; 0 where the latter is not positive."""
        ...

    def take_weights(self, positions: Any, prices: Any, bar: Any, value: Any, out: Any, cash: Any = None) -> None:
        """Writes positions (n, C) times row `bar[i]` of the prices over the value (n,) to `out`; 0 without value.

        With cash (n,), `out` has one column more, the first, for its part of the value.
        """
        ...

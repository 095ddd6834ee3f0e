"""An array to which rows are added."""

from __future__ import annotations

import numpy as np

from alphaswarm_rl.core.types import Array

#: Rows that there is room for at first beside those that are there.
_ROOM = 256


class GrowingArray:
    """Rows behind each other, with room for more: adding one copies no other, most of the time.

    Args:
        rows: The rows so far; they are copied.
    """

    def __init__(self, rows: Array) -> None:
        self._length = len(rows)
        self._room = np.empty((self._length + max(_ROOM, self._length // 2), *rows.shape[1:]), rows.dtype)
        self._room[: self._length] = rows

    def add(self, rows: Array) -> Array:
        """All rows with these behind them; what was handed out before stays as it is."""
        if self._length + len(rows) > len(self._room):
            larger = GrowingArray(np.concatenate([self.rows, rows]))
            self._room, self._length = larger._room, larger._length
            return self.rows
        self._room[self._length : self._length + len(rows)] = rows
        self._length += len(rows)
        return self.rows

    @property
    def rows(self) -> Array:
        """All of them, as a view."""
        return self._room[: self._length]

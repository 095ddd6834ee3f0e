"""How fast a training goes."""

from __future__ import annotations

import time


class Pace:
    """Time and transitions since a moment.

    Args:
        first: Transitions at that moment, which is now.
    """

    def __init__(self, first: int) -> None:
        self.first = first
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since then."""
        return time.monotonic() - self._began

    def rate(self, done: int) -> float:
        """Transitions per second since then, where that many are done now."""
        return (done - self.first) / max(self.seconds, 1e-9)

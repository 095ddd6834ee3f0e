"""Windows of dates."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Window:
    """Dates from `start` (included) to `end` (excluded), ISO; None is open."""

    start: str | None = None
    end: str | None = None

    def __bool__(self) -> bool:
        return self.start is not None or self.end is not None

    def overlaps(self, other: Window) -> bool:
        """Whether the two share a moment; an open end reaches everything."""
        starts_before = self.start is None or other.end is None or self.start < other.end
        return starts_before and (other.start is None or self.end is None or other.start < self.end)

"""Windows of dates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from alphaswarm_rl.core.errors import SpecError


@dataclass(frozen=True)
class Window:
    """Dates from `start` (included) to `end` (excluded), ISO; None is open."""

    start: str | None = None
    end: str | None = None

    def __post_init__(self) -> None:
        start, end = (None if date is None else _moment(date) for date in (self.start, self.end))
        if start is not None and end is not None and start >= end:
            raise SpecError(
                f"window {self.start} to {self.end}", "it does not end after it starts", "Give an end after the start."
            )

    def __str__(self) -> str:
        return f"{self.start or 'the first bar'} to {self.end or 'the last bar'}"

    def __bool__(self) -> bool:
        return self.start is not None or self.end is not None

    def without(self, others: Iterable[Window]) -> list[Window]:
        """What is left of it when others are taken out, the earliest piece first."""
        pieces = [self]
        for other in others:
            pieces = [left for piece in pieces for left in piece._without(other)]
        return pieces

    def _without(self, other: Window) -> Iterator[Window]:
        if not self.overlaps(other):
            yield self
            return
        if other.start is not None and (self.start is None or _moment(self.start) < _moment(other.start)):
            yield Window(self.start, other.start)
        if other.end is not None and (self.end is None or _moment(other.end) < _moment(self.end)):
            yield Window(other.end, self.end)

    def overlaps(self, other: Window) -> bool:
        """Whether the two share a moment; an open end reaches everything."""
        starts_before = self.start is None or other.end is None or _moment(self.start) < _moment(other.end)
        return starts_before and (other.start is None or self.end is None or _moment(other.start) < _moment(self.end))


def _moment(date: str) -> datetime:
    try:
        moment = datetime.fromisoformat(date)
    except (TypeError, ValueError) as error:
        raise SpecError(f"date {date!r}", "it is not an ISO date", "Write one such as 2024-01-31.") from error
    return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)

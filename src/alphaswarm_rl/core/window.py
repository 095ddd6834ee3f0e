"""Windows of dates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TypeAlias

from alphaswarm_rl.core.errors import SpecError, nearest


@dataclass(frozen=True)
class Window:
    """Dates from `start` (included) to `end` (excluded), ISO; None is open."""

    start: str | None = None
    end: str | None = None

    def __post_init__(self) -> None:
        start, end = (None if each is None else _moment(each) for each in (self.start, self.end))
        if start is not None and end is not None and start >= end:
            raise SpecError(
                f"window {self.start} to {self.end}", "it does not end after it starts", "Give an end after the start."
            )

    @classmethod
    def of(cls, value: WindowLike) -> Window:
        """The window that is meant: itself, `{"start": ..., "end": ...}`, or a pair of dates; None is an open end.

        Dates may be `datetime.date` too. Anything else is a SpecError.
        """
        if isinstance(value, Window):
            return value
        if isinstance(value, Mapping):
            for key in value:
                if key not in _ENDS:
                    raise SpecError("window", f"unknown key {key!r}", nearest(str(key), _ENDS))
            return cls(*(_text(value.get(name)) for name in _ENDS))
        if isinstance(value, Sequence) and not isinstance(value, str | bytes) and len(value) == len(_ENDS):
            return cls(*map(_text, value))
        remedy = "Write Window(start, end), (start, end) or {'start': ..., 'end': ...}."
        raise SpecError(f"window {value!r}", "it is no window", remedy)

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


_ENDS = ("start", "end")

#: What may be written where a window is meant.
WindowLike: TypeAlias = Window | Mapping[str, object] | Sequence[object]


def _text(value: object) -> str | None:
    """A date as text; what is neither is refused by the window itself."""
    return value.isoformat() if isinstance(value, date) else value  # type: ignore[return-value]


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError) as error:
        raise SpecError(f"date {text!r}", "it is not an ISO date", "Write one such as 2024-01-31.") from error
    return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)

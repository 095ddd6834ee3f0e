"""The bars that gym-anytrading's environments show, cut by date."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from alphaswarm_rl.core.contracts import Window
from alphaswarm_rl.core.errors import EnvError, require
from alphaswarm_rl.core.types import Array, JsonMapping

#: Frame and observation window that each environment is registered with, and the form of dates that are left as text.
_SOURCES = {
    "forex": ("FOREX_EURUSD_1H_ASK", 24, "%d.%m.%Y %H:%M:%S.%f"),
    "stocks": ("STOCKS_GOOGL", 30, None),
}

#: An episode makes its first step on its second bar; with fewer, gym-anytrading steps past its end.
_FEWEST_BARS = 2


@dataclass(frozen=True)
class Bars:
    """The part of a frame that an environment shows.

    Attributes:
        frame: All bars.
        dates: Their dates.
        first: Index of the first bar on which the agent acts.
        end: Index after the last one.
        window_size: How many bars one observation shows; those before `first` are warm-up.
    """

    frame: Any
    dates: Array
    first: int
    end: int
    window_size: int

    def arguments(self) -> dict[str, Any]:
        """What the environment is made with."""
        return {"frame_bound": (self.first, self.end), "window_size": self.window_size}

    def overlaps(self, other: Bars) -> bool:
        """Whether the agent acts on a common bar."""
        return self.first < other.end and other.first < self.end

    def fingerprint(self) -> str:
        """SHA-256 over the bars that are shown, warm-up included, with their dates and column names."""
        shown = slice(self.first - self.window_size, self.end)
        digest = hashlib.sha256("\n".join(map(str, self.frame.columns)).encode())
        digest.update(np.ascontiguousarray(self.dates[shown].astype("datetime64[ns]")).tobytes())
        digest.update(np.ascontiguousarray(self.frame.to_numpy(np.float64)[shown]).tobytes())
        return digest.hexdigest()


def bars(name: str, window: Window, kwargs: JsonMapping) -> Bars:
    """The bars of that window.

    The first observation ends with the first bar at or after `window.start`; the bars before it in the observation are
    warm-up and may lie before the window. Where the frame has too few before it, the first bar moves on.

    Args:
        name: One of gym-anytrading's environments, without its version.
        window: Dates, from start (included) to end (excluded).
        kwargs: The environment's own parameters, of which `window_size` and `frame_bound` count here.
    """
    source, usual_size, date_format = _SOURCES[name]
    datasets = require("gym_anytrading.datasets", extra="anytrading")
    frame = getattr(datasets, source)
    dates = _dates(frame.index, date_format)
    size = kwargs.get("window_size", usual_size)
    if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= len(dates) - _FEWEST_BARS:
        raise EnvError(
            f"{name}: window_size {size!r}", f"it has {len(dates)} bars", "Give a smaller whole number, at least 1."
        )
    bound = kwargs.get("frame_bound")
    if bound is not None:
        first, end = _given_bound(name, bound, size, len(dates), window)
    else:
        first = 0 if window.start is None else int(np.searchsorted(dates, _moment(window.start)))
        first = max(first, size)
        end = len(dates) if window.end is None else int(np.searchsorted(dates, _moment(window.end)))
    if end - first < _FEWEST_BARS:
        raise EnvError(
            f"{name}: the window {window.start} to {window.end}",
            f"it holds {max(end - first, 0)} bars to act on and {_FEWEST_BARS} are needed",
            f"Its bars run from {dates[0]} to {dates[-1]}, and the first {size} are warm-up.",
        )
    return Bars(frame, dates, first, end, size)


def _dates(index: object, date_format: str | None) -> Array:
    pandas = require("pandas", extra="anytrading")
    # The library's own reading of day.month.year fails silently and leaves text, which sorts by day.
    dates = pandas.to_datetime(index, format=date_format)
    return np.asarray(dates.to_numpy().astype("datetime64[s]"))


def _moment(text: str) -> np.datetime64:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise EnvError(f"the date {text!r}", "it is not a date in ISO form", "Write it as 2017-06-30.") from error
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    return np.datetime64(moment)


def _given_bound(name: str, bound: object, size: int, length: int, window: Window) -> tuple[int, int]:
    if window:
        raise EnvError(
            f"{name}: frame_bound {bound!r}",
            f"the window {window.start} to {window.end} says already which bars are shown",
            "Leave out one of the two.",
        )
    pair = isinstance(bound, list | tuple) and len(bound) == 2 and all(type(index) is int for index in bound)
    if not isinstance(bound, list | tuple) or not pair or not size <= bound[0] < bound[1] <= length:
        raise EnvError(
            f"{name}: frame_bound {bound!r}",
            f"it is two indices, the first at least window_size ({size}), the second at most {length}",
            "Correct it, or give dates instead.",
        )
    return bound[0], bound[1]

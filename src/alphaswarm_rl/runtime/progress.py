"""The progress bar: rate, time left, mean reward."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

#: Redrawing more often than this costs more than it shows.
_SECONDS_BETWEEN_UPDATES = 0.2


class ProgressBar:
    """A bar on standard error while a run trains.

    Args:
        total: Transitions to go to.
    """

    def __init__(self, total: int) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[reward]}"),
            console=Console(stderr=True),
            transient=False,
        )
        self._task = self._progress.add_task("train", total=total, start=False, rate="", reward="")
        self._first = 0
        self._started = self._last = time.monotonic()

    def counting_from(self, done: int) -> ProgressBar:
        """The bar of a run that has done that many transitions before: rate and time left are those of this leg."""
        self._first = done
        self._progress.update(self._task, completed=done)
        return self

    def __enter__(self) -> ProgressBar:
        self._started = self._last = time.monotonic()
        self._progress.start_task(self._task)
        self._progress.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._progress.stop()

    def update(self, done: int, mean_reward: float | None, *, force: bool = False) -> None:
        """Shows where the run is; most calls do nothing but look at the clock."""
        now = time.monotonic()
        if not force and now - self._last < _SECONDS_BETWEEN_UPDATES:
            return
        self._last = now
        rate = (done - self._first) / max(now - self._started, 1e-9)
        reward = "" if mean_reward is None else f"mean reward {mean_reward:.2f}"
        self._progress.update(self._task, completed=done, rate=f"{rate:,.0f}/s", reward=reward)

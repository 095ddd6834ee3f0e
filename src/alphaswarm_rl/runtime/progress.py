"""What people see of a training: a bar where somebody watches a terminal, and a line in the log now and then elsewhere.

Both say rate, time left and mean reward.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from datetime import timedelta
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from alphaswarm_rl.runtime.pace import Pace

_log = logging.getLogger(__name__)

#: Redrawing a bar more often than this costs more than it shows.
_SECONDS_BETWEEN_DRAWINGS = 0.2
_SECONDS_BETWEEN_LINES = 10.0
#: What must be done before a time left is said: this share of the training, or so many transitions.
_SHARE_KNOWN = 0.01
_TRANSITIONS_KNOWN = 1000
#: Below this many a second, the rate has digits behind the point.
_SLOW = 10


class TrainingProgress(ABC):
    """Shows where a training is, at intervals.

    Args:
        total: Transitions to go to.
        seconds: The interval.
    """

    def __init__(self, total: int, seconds: float) -> None:
        self._total = total
        self._seconds = seconds
        self._pace = Pace(0)
        self._next = time.monotonic() + seconds

    def counting_from(self, done: int) -> Self:
        """The progress of a run that has done that many transitions: rate and time left are those of this leg."""
        self._pace = Pace(done)
        self._next = time.monotonic() + self._seconds
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:  # noqa: B027  (lines are not open)
        """Shows nothing more."""

    def is_due(self) -> bool:
        """Whether it should be shown again; asked on every vector step, it does nothing but look at the clock."""
        return time.monotonic() >= self._next

    def show(self, done: int, mean_reward: float | None) -> None:
        """Shows where the run is."""
        self._next = time.monotonic() + self._seconds
        self._show(done, self._pace.rate(done), mean_reward)

    def finish(self, done: int, mean_reward: float | None) -> None:  # noqa: B027  (an event says it)
        """The training is over."""

    @abstractmethod
    def _show(self, done: int, rate: float, mean_reward: float | None) -> None:
        """Shows transitions, transitions per second, and the mean reward where an episode has ended."""


class ProgressBar(TrainingProgress):
    """A bar on standard error.

    Args:
        total: Transitions to go to.
    """

    def __init__(self, total: int) -> None:
        super().__init__(total, _SECONDS_BETWEEN_DRAWINGS)
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

    def counting_from(self, done: int) -> Self:
        """The bar begins there."""
        self._progress.update(self._task, completed=done)
        return super().counting_from(done)

    def __enter__(self) -> Self:
        self._progress.start_task(self._task)
        self._progress.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._progress.stop()

    def finish(self, done: int, mean_reward: float | None) -> None:
        """Draws it a last time."""
        self.show(done, mean_reward)

    def _show(self, done: int, rate: float, mean_reward: float | None) -> None:
        reward = "" if mean_reward is None else f"mean reward {mean_reward:.2f}"
        self._progress.update(self._task, completed=done, rate=f"{rate:,.0f}/s", reward=reward)


class ProgressLines(TrainingProgress):
    """A line in the log, which the command line writes to standard error.

    Args:
        run_id: The run.
        total: Transitions to go to.
    """

    def __init__(self, run_id: str, total: int) -> None:
        super().__init__(total, _SECONDS_BETWEEN_LINES)
        self._run_id = run_id

    def _show(self, done: int, rate: float, mean_reward: float | None) -> None:
        left = timedelta(seconds=round(max(self._total - done, 0) / rate)) if self._shows_pace(done) else "unknown time"
        reward = "" if mean_reward is None else f", mean reward {mean_reward:.2f}"
        pace = f"{rate:,.0f}" if rate >= _SLOW else f"{rate:.2g}"
        progress = f"{done:,} of {self._total:,} transitions, {pace} per second, {left} left{reward}"
        _log.info("run %s: %s", self._run_id[:8], progress)

    def _shows_pace(self, done: int) -> bool:
        """Whether enough is done to tell the time left: a first step that compiles says nothing about others."""
        begun = done - self._pace.first
        return begun > 0 and begun >= min(_SHARE_KNOWN * (self._total - self._pace.first), _TRANSITIONS_KNOWN)


def progress_of(run_id: str, total: int, *, bar: bool) -> TrainingProgress:
    """How the progress of a training is shown.

    Args:
        run_id: The run.
        total: Transitions to go to.
        bar: Whether somebody watches a terminal.
    """
    return ProgressBar(total) if bar else ProgressLines(run_id, total)

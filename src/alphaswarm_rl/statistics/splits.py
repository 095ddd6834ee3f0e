"""Splits of time: which periods train, which judge, and which stand between them.

A label that is made of the periods after it, such as the return of the next five, knows them: what is trained so close
before a test has seen the test. Such periods are purged. An embargo leaves out more of them after a test, where memory
lasts longer than labels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from alphaswarm_rl.core.errors import StatisticsError
from alphaswarm_rl.core.types import Array
from alphaswarm_rl.core.window import Window


@dataclass(frozen=True)
class Split:
    """Periods that train and periods that judge, by number, ascending.

    Attributes:
        train: Periods to train on.
        test: Periods to judge on.
    """

    train: Array
    test: Array


@dataclass(frozen=True)
class CombinatorialSplit(Split):
    """A split whose test is several folds.

    Attributes:
        tests: The periods of each of its test folds; `test` is all of them.
        folds: The numbers of these folds.
    """

    tests: tuple[Array, ...]
    folds: tuple[int, ...]


@dataclass(frozen=True)
class DateSplit:
    """Periods by date, by number, ascending.

    Attributes:
        train: Periods to train on.
        validation: Periods to choose by; empty where there is no such window.
        test: Periods to judge on.
    """

    train: Array
    validation: Array
    test: Array


def walk_forward_anchored(
    periods: int, train_size: int, test_size: int, *, step: int | None = None, purge: int = 0, keep_last: bool = False
) -> list[Split]:
    """Tests that follow each other, each trained on everything before it.

    Args:
        periods: How many there are.
        train_size: Periods of the first training.
        test_size: Periods of a test.
        step: Periods from one test to the next; None: tests do not overlap.
        purge: Periods between a training and its test.
        keep_last: Whether the last test is kept where too few periods are left for a whole one.

    Raises:
        StatisticsError: A number is out of range, or there are too few periods for one test.
    """
    starts = _test_starts(periods, train_size, test_size, step, purge, keep_last=keep_last)
    return [Split(np.arange(0, start - purge), np.arange(start, min(start + test_size, periods))) for start in starts]


def walk_forward_rolling(
    periods: int, train_size: int, test_size: int, *, step: int | None = None, purge: int = 0, keep_last: bool = False
) -> list[Split]:
    """Tests that follow each other, each trained on as many periods before it. Arguments are those of the anchored."""
    anchored = walk_forward_anchored(periods, train_size, test_size, step=step, purge=purge, keep_last=keep_last)
    return [Split(split.train[-train_size:], split.test) for split in anchored]


def split_by_date(
    dates: Array, train: Window, test: Window, validation: Window | None = None, purge: int = 0
) -> DateSplit:
    """Training, validation and test by dates, with `purge` periods or more between each and the next.

    Args:
        dates: The date of each period, `datetime64`, ascending.
        train: Dates to train on.
        test: Dates to judge on, after the others.
        validation: Dates to choose by, between the two; None: there are none.
        purge: How many periods must lie between one part and the next; the earlier part gives them.

    Raises:
        StatisticsError: Windows overlap or are in another order, dates do not ascend, or a part has no period.
    """
    moments = np.asarray(dates)
    if moments.dtype.kind != "M" or np.isnat(moments).any() or not (moments[1:] > moments[:-1]).all():
        raise StatisticsError("the dates of a split", "they are not ascending datetime64", "Sort them, each once.")
    if purge < 0:
        raise _out_of_range("purge", purge, "0 or more")
    windows = {"train": train, "validation": validation, "test": test}
    parts = {name: _periods_in(moments, window) for name, window in windows.items() if window is not None}
    kept: dict[str, Array] = {}
    names = list(parts)
    for name, later in zip(names, [*names[1:], None], strict=True):
        found = parts[name]
        if later is not None and len(parts[later]):
            first = int(parts[later][0])
            if len(found) and found[-1] >= first:
                why = f"{name} ({windows[name]}) does not end before {later} ({windows[later]}) begins"
                raise StatisticsError("the windows of a split", why, "Give windows that follow each other.")
            found = found[found < first - purge]
        if len(found) == 0:
            why = f"{name} ({windows[name]}) has no period"
            raise StatisticsError("the windows of a split", why, "Give dates that the data has, or purge less.")
        kept[name] = found
    return DateSplit(kept["train"], kept.get("validation", np.arange(0)), kept["test"])


@dataclass(frozen=True)
class CombinatorialPurgedKFold:
    """Every choice of some of the folds as the test, the rest of them training, purged.

    Each fold is tested as often as any other, each time trained on other periods. Put together, these tests give
    several whole histories of a strategy instead of one: its paths.

    Attributes:
        folds: Neighbouring parts that the periods are cut into; the last takes what is left over.
        test_folds: How many of them are a test.
        purge: Periods that a label reaches into the future, where labels have no times.
        embargo: Periods left out after a test and its labels; a `float` below 1 is a share of all periods.

    Raises:
        StatisticsError: A number is out of range.
    """

    folds: int = 10
    test_folds: int = 2
    purge: int = 0
    embargo: int | float = 0

    def __post_init__(self) -> None:
        if self.folds < 2:
            raise _out_of_range("folds", self.folds, "2 or more")
        if not 1 <= self.test_folds < self.folds:
            raise _out_of_range("test_folds", self.test_folds, f"1 to {self.folds - 1}")
        if self.purge < 0:
            raise _out_of_range("purge", self.purge, "0 or more")
        if not self.embargo >= 0 or (isinstance(self.embargo, float) and self.embargo >= 1):
            raise _out_of_range("embargo", self.embargo, "a number of periods, or a share from 0 to below 1")

    @property
    def splits(self) -> int:
        """How many splits there are."""
        return math.comb(self.folds, self.test_folds)

    @property
    def paths(self) -> int:
        """How many whole histories the tests give."""
        return math.comb(self.folds - 1, self.test_folds - 1)

    @cached_property
    def tested(self) -> Array:
        """The folds that each split tests, (splits, test folds), in lexicographic order."""
        return np.array(list(combinations(range(self.folds), self.test_folds)))

    @cached_property
    def path_splits(self) -> Array:
        """Which split tests a fold on a path, (paths, folds): path j has the j-th test of every fold."""
        return np.array([np.flatnonzero((self.tested == fold).any(axis=1)) for fold in range(self.folds)]).T

    def split(
        self, periods: int, label_starts: Array | None = None, label_ends: Array | None = None
    ) -> Iterator[CombinatorialSplit]:
        """The splits, one after the other.

        Args:
            periods: How many there are.
            label_starts: When the label of each period begins to be known, ascending: numbers or moments.
            label_ends: When it is known. With both, `purge` must be 0: labels say themselves what they reach into.

        Raises:
            StatisticsError: There are more folds than periods, a split has nothing to train on, or labels have one kind
                of times and not the other, other lengths, or an end before their start.
        """
        edges = self._edges(periods)
        times = None
        if label_starts is not None or label_ends is not None:
            times = self._checked_times(periods, label_starts, label_ends)
        numbers = np.arange(periods)
        for chosen in self.tested.tolist():
            kept = np.ones(periods, dtype=bool)
            for first, last in _blocks(chosen):
                self._leave_out(kept, edges[first], edges[last + 1], times)
            train = np.flatnonzero(kept)
            if len(train) == 0:
                why = f"the one that tests the folds {chosen} has no period to train on"
                raise StatisticsError("the splits", why, "Purge less, or give more periods.")
            tests = tuple(numbers[edges[fold] : edges[fold + 1]] for fold in chosen)
            yield CombinatorialSplit(train, np.concatenate(tests), tests, tuple(chosen))

    def assemble(self, periods: int, results: Sequence[Array]) -> Array:
        """What the tests of all splits gave, as whole histories, (paths, periods).

        Args:
            periods: How many there are.
            results: What each split gave for the periods of its `test`, in their order, such as returns.

        Raises:
            StatisticsError: There are not as many results as splits, or one of them does not fit its test.
        """
        edges = self._edges(periods)
        if len(results) != self.splits:
            why = f"there are {len(results)} of {self.splits} splits"
            raise StatisticsError("the results of splits", why, "Give one for each.")
        pieces: list[dict[int, Array]] = []
        for result, chosen in zip(results, self.tested.tolist(), strict=True):
            ends = np.cumsum([edges[fold + 1] - edges[fold] for fold in chosen])
            if ends[-1] != len(result):
                why = f"the test of the folds {chosen} has {ends[-1]} periods, and its result {len(result)}"
                raise StatisticsError("the results of splits", why, "Give one number for each period of a test.")
            pieces.append(dict(zip(chosen, np.split(np.asarray(result), ends[:-1]), strict=True)))
        paths = self.path_splits.tolist()
        return np.stack([np.concatenate([pieces[split][fold] for fold, split in enumerate(path)]) for path in paths])

    def _edges(self, periods: int) -> list[int]:
        """Where each fold begins, and where the last one ends."""
        if periods < self.folds:
            what = f"{self.folds} folds of {periods} periods"
            raise StatisticsError(what, "a fold has no period", "Give fewer folds, or more periods.")
        return [fold * (periods // self.folds) for fold in range(self.folds)] + [periods]

    def _checked_times(self, periods: int, starts: Array | None, ends: Array | None) -> tuple[Array, Array]:
        what = "the times of labels"
        if starts is None or ends is None:
            raise StatisticsError(what, "labels that overlap need both", "Give label_starts and label_ends.")
        if self.purge:
            raise StatisticsError(what, f"purge is {self.purge} as well", "Give one of the two: times say it all.")
        starts, ends = np.asarray(starts), np.asarray(ends)
        if starts.shape != (periods,) or ends.shape != (periods,):
            why = f"they have the shapes {starts.shape} and {ends.shape}, and there are {periods} periods"
            raise StatisticsError(what, why, "Give one of each for every period.")
        if not ((starts[1:] >= starts[:-1]).all() and (ends >= starts).all()):
            why = "starts do not ascend, a label ends before it starts, or a time is missing"
            raise StatisticsError(what, why, "Sort periods by the start of their label.")
        return starts, ends

    def _leave_out(self, kept: Array, first: int, end: int, times: tuple[Array, Array] | None) -> None:
        """Takes a block of test periods out of the training, with what its labels reach into and the embargo."""
        embargo = int(len(kept) * self.embargo) if isinstance(self.embargo, float) else self.embargo
        if times is None:
            kept[max(0, first - self.purge) : end + self.purge + embargo] = False
            return
        starts, ends = times
        known = ends[first:end].max()
        kept[(starts <= known) & (ends >= starts[first])] = False
        after = int(np.searchsorted(starts, known, side="right"))
        kept[after : after + embargo] = False


def _blocks(folds: Sequence[int]) -> list[tuple[int, int]]:
    """Runs of neighbouring folds: the first and the last of each."""
    firsts = [fold for fold in folds if fold - 1 not in folds]
    lasts = [fold for fold in folds if fold + 1 not in folds]
    return list(zip(firsts, lasts, strict=True))


def _periods_in(moments: Array, window: Window) -> Array:
    bounds = [None if each is None else np.datetime64(each) for each in (window.start, window.end)]
    first = 0 if bounds[0] is None else int(np.searchsorted(moments, bounds[0]))
    end = len(moments) if bounds[1] is None else int(np.searchsorted(moments, bounds[1]))
    return np.arange(first, end)


def _test_starts(
    periods: int, train_size: int, test_size: int, step: int | None, purge: int, *, keep_last: bool
) -> range:
    step = test_size if step is None else step
    for name, value, least in (
        ("train_size", train_size, 1),
        ("test_size", test_size, 1),
        ("step", step, 1),
        ("purge", purge, 0),
    ):
        if value < least:
            raise _out_of_range(name, value, f"{least} or more")
    first = train_size + purge
    starts = range(first, periods if keep_last else periods - test_size + 1, step)
    if not starts:
        raise StatisticsError(
            f"a walk forward over {periods} periods",
            f"one training of {train_size}, {purge} between and one test of {test_size} need "
            f"{first + (1 if keep_last else test_size)}",
            "Make them shorter, or give more periods.",
        )
    return starts


def _out_of_range(name: str, value: float, allowed: str) -> StatisticsError:
    return StatisticsError(f"{name} {value}", "it is out of range", f"Give {allowed}.")

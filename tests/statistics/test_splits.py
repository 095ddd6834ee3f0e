"""Splits of time: by hand, by what they always are, and by their numbers."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphaswarm_rl.core.errors import StatisticsError
from alphaswarm_rl.core.window import Window
from alphaswarm_rl.statistics import (
    CombinatorialPurgedKFold,
    split_by_date,
    walk_forward_anchored,
    walk_forward_rolling,
)

WALKS = st.tuples(
    st.integers(1, 60), st.integers(1, 20), st.integers(1, 10), st.none() | st.integers(1, 12), st.integers(0, 5)
)
DATES = np.arange("2020-01-01", "2020-01-21", dtype="datetime64[D]")


def as_lists(splits):
    return [(split.train.tolist(), split.test.tolist()) for split in splits]


def test_a_walk_forward_by_hand():
    assert as_lists(walk_forward_anchored(8, 3, 2)) == [([0, 1, 2], [3, 4]), ([0, 1, 2, 3, 4], [5, 6])]
    assert as_lists(walk_forward_rolling(8, 3, 2)) == [([0, 1, 2], [3, 4]), ([2, 3, 4], [5, 6])]
    assert as_lists(walk_forward_rolling(8, 3, 2, purge=1)) == [([0, 1, 2], [4, 5]), ([2, 3, 4], [6, 7])]
    assert as_lists(walk_forward_anchored(8, 3, 2, keep_last=True))[-1] == ([0, 1, 2, 3, 4, 5, 6], [7])
    assert as_lists(walk_forward_rolling(7, 3, 2, step=1)) == [
        ([0, 1, 2], [3, 4]),
        ([1, 2, 3], [4, 5]),
        ([2, 3, 4], [5, 6]),
    ]


@given(WALKS)
def test_what_a_walk_forward_always_is(numbers):
    periods, train, test, step, purge = numbers
    if train + purge + test > periods:
        for walk in (walk_forward_anchored, walk_forward_rolling):
            with pytest.raises(StatisticsError, match=f"a walk forward over {periods} periods"):
                walk(periods, train, test, step=step, purge=purge)
        return
    anchored = walk_forward_anchored(periods, train, test, step=step, purge=purge)
    rolling = walk_forward_rolling(periods, train, test, step=step, purge=purge)
    assert len(anchored) == len(rolling) == (periods - train - purge - test) // (step or test) + 1
    for grown, moved in zip(anchored, rolling, strict=True):
        assert grown.test.tolist() == moved.test.tolist()
        assert grown.train[0] == 0
        assert len(moved.train) == train
        assert len(moved.test) == test
        assert grown.train[-1] == moved.train[-1] == moved.test[0] - purge - 1


@pytest.mark.parametrize(
    ("folds", "tested", "splits", "paths"), [(6, 2, 15, 5), (10, 2, 45, 9), (10, 8, 45, 36), (2, 1, 2, 1)]
)
def test_the_published_numbers_of_splits_and_paths(folds, tested, splits, paths):
    found = CombinatorialPurgedKFold(folds, tested)
    assert (found.splits, found.paths) == (splits, paths)
    assert len(list(found.split(3 * folds))) == splits
    assert found.path_splits.shape == (paths, folds)


@pytest.mark.parametrize(
    ("options", "trains"),
    [
        ({"purge": 1}, [[9, 10, 11], [5, 6], [0, 1, 2]]),
        ({"embargo": 1}, [[9, 10, 11], [5, 6, 7], [0, 1, 2, 3]]),
        ({"embargo": 0.1}, [[9, 10, 11], [5, 6, 7], [0, 1, 2, 3]]),  # a tenth of 12 is 1
    ],
)
def test_purge_and_embargo_are_the_published_ones(options, trains):
    found = list(CombinatorialPurgedKFold(3, 2, **options).split(12))
    assert [split.train.tolist() for split in found] == trains
    assert [split.folds for split in found] == [(0, 1), (0, 2), (1, 2)]
    assert found[1].test.tolist() == [0, 1, 2, 3, 8, 9, 10, 11]
    assert [part.tolist() for part in found[1].tests] == [[0, 1, 2, 3], [8, 9, 10, 11]]


def test_the_last_fold_takes_what_is_left():
    assert [split.test.tolist() for split in CombinatorialPurgedKFold(3, 1).split(8)] == [[0, 1], [2, 3], [4, 5, 6, 7]]


KFOLDS = st.integers(2, 7).flatmap(
    lambda folds: st.builds(
        CombinatorialPurgedKFold,
        st.just(folds),
        st.integers(1, folds - 1),
        purge=st.integers(0, 4),
        embargo=st.integers(0, 4),
    )
)


@given(KFOLDS, st.integers(0, 5))
def test_what_a_combinatorial_split_always_is(kfold, more):
    periods = kfold.folds * (kfold.purge * 2 + kfold.embargo + 3) + more
    tested = dict.fromkeys(range(kfold.folds), 0)
    for split in kfold.split(periods):
        train, test = set(split.train.tolist()), set(split.test.tolist())
        assert not train & test
        kept_apart = set()
        for period in test:
            kept_apart |= set(range(period - kfold.purge, period + kfold.purge + kfold.embargo + 1))
        # Nothing too near is trained on, and whatever is far enough is.
        assert train == set(range(periods)) - kept_apart
        for fold in split.folds:
            tested[fold] += 1
    assert set(tested.values()) == {math.comb(kfold.folds - 1, kfold.test_folds - 1)}
    used = [(int(split), fold) for path in kfold.path_splits for fold, split in enumerate(path)]
    assert len(used) == len(set(used)) == kfold.splits * kfold.test_folds
    assert all(fold in kfold.tested[split] for split, fold in used)


@given(KFOLDS, st.integers(0, 3))
def test_labels_with_times_are_labels_of_so_many_periods(kfold, more):
    periods = kfold.folds * (kfold.purge * 2 + kfold.embargo + 3) + more
    by_times = CombinatorialPurgedKFold(kfold.folds, kfold.test_folds, embargo=kfold.embargo)
    starts = np.datetime64("2020-01-01") + np.arange(periods)
    found = by_times.split(periods, starts, starts + kfold.purge)
    assert [split.train.tolist() for split in found] == [split.train.tolist() for split in kfold.split(periods)]


def test_a_long_label_is_purged_wherever_it_is():
    # The label of period 1 reaches into period 9, that of period 5 (tested) to 7.
    starts, ends = np.arange(12), np.arange(12)
    ends[1], ends[5] = 9, 7
    found = list(CombinatorialPurgedKFold(3, 1, embargo=1).split(12, starts, ends))
    assert found[1].train.tolist() == [0, 2, 3, 9, 10, 11]  # 4 to 7 are the test, 1 looks into it, 8 is the embargo
    ends[5] = 8
    found = list(CombinatorialPurgedKFold(3, 1).split(12, starts, ends))
    assert found[1].train.tolist() == [0, 2, 3, 9, 10, 11]  # 8 begins before the label of 5 is known


def test_paths_are_whole_histories():
    kfold = CombinatorialPurgedKFold(4, 2)
    numbers = [100 * number + split.test for number, split in enumerate(kfold.split(10))]
    histories = kfold.assemble(10, numbers)
    assert histories.shape == (3, 10)
    assert (histories % 100 == np.arange(10)).all()
    # Path j of a fold is the j-th split that tests it.
    for fold, periods in enumerate(([0, 1], [2, 3], [4, 5], [6, 7, 8, 9])):
        expected = [number for number, some in enumerate(combinations(range(4), 2)) if fold in some]
        for period in periods:
            assert (histories[:, period] // 100).tolist() == expected


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: walk_forward_anchored(10, 0, 2), "train_size 0"),
        (lambda: walk_forward_anchored(10, 3, 0), "test_size 0"),
        (lambda: walk_forward_rolling(10, 3, 2, step=0), "step 0"),
        (lambda: walk_forward_rolling(10, 3, 2, purge=-1), "purge -1"),
        (lambda: walk_forward_rolling(4, 3, 2), "need 5"),
        (lambda: walk_forward_rolling(3, 3, 2, keep_last=True), "need 4"),
        (lambda: CombinatorialPurgedKFold(1, 1), "folds 1"),
        (lambda: CombinatorialPurgedKFold(5, 5), "test_folds 5"),
        (lambda: CombinatorialPurgedKFold(5, 0), "test_folds 0"),
        (lambda: CombinatorialPurgedKFold(5, 2, purge=-1), "purge -1"),
        (lambda: CombinatorialPurgedKFold(5, 2, embargo=-1), "embargo -1"),
        (lambda: CombinatorialPurgedKFold(5, 2, embargo=1.0), "embargo 1.0"),
        (lambda: list(CombinatorialPurgedKFold(5, 2).split(4)), "5 folds of 4 periods: a fold has no period"),
        (lambda: list(CombinatorialPurgedKFold(3, 1, purge=9).split(9)), "no period to train on"),
        (lambda: list(CombinatorialPurgedKFold(3, 1).split(9, np.arange(9))), "labels that overlap need both"),
        (lambda: list(CombinatorialPurgedKFold(3, 1).split(9, label_ends=np.arange(9))), "need both"),
        (lambda: list(CombinatorialPurgedKFold(3, 1, purge=1).split(9, np.arange(9), np.arange(9))), "purge is 1"),
        (lambda: list(CombinatorialPurgedKFold(3, 1).split(9, np.arange(8), np.arange(9))), "the shapes"),
        (lambda: list(CombinatorialPurgedKFold(3, 1).split(9, np.arange(9), np.arange(9) - 1)), "ends before"),
        (lambda: list(CombinatorialPurgedKFold(3, 1).split(9, np.arange(9)[::-1], np.full(9, 9))), "do not ascend"),
        (lambda: list(CombinatorialPurgedKFold(3, 1).split(3, np.array([0, 1, np.nan]), np.full(3, 9.0))), "missing"),
        (lambda: CombinatorialPurgedKFold(3, 1).assemble(9, [np.zeros(3)]), "there are 1 of 3 splits"),
        (lambda: CombinatorialPurgedKFold(3, 1).assemble(9, [np.zeros(4)] * 3), "has 3 periods, and its result 4"),
    ],
)
def test_bad_input_has_a_name(wrong, words):
    with pytest.raises(StatisticsError, match=words):
        wrong()


def test_dates_by_hand():
    found = split_by_date(
        DATES,
        Window("2020-01-02", "2020-01-08"),
        Window("2020-01-12"),
        validation=Window("2020-01-08", "2020-01-11"),
        purge=2,
    )
    assert found.train.tolist() == [1, 2, 3, 4]  # 7th and 8th are purged of the validation that begins with 7
    assert found.validation.tolist() == [7, 8]  # one period lies between already
    assert found.test.tolist() == list(range(11, 20))
    whole = split_by_date(DATES, Window(None, "2020-01-11"), Window("2020-01-11", "2020-01-13"))
    assert (len(whole.train), len(whole.validation), whole.test.tolist()) == (10, 0, [10, 11])


@pytest.mark.parametrize(
    ("dates", "train", "test", "options", "words"),
    [
        (DATES, Window(None, "2020-01-12"), Window("2020-01-10"), {}, "train .* does not end before test"),
        (DATES, Window(None, "2020-01-11"), Window("2020-01-10"), {}, "train .* does not end before test"),
        (DATES, Window("2020-01-10"), Window(None, "2020-01-05"), {}, "train .* does not end before test"),
        (DATES, Window(None, "2020-01-03"), Window("2020-01-03"), {"purge": 2}, "train .* has no period"),
        (DATES, Window(None, "2020-01-03"), Window("2021-01-01"), {}, "test .* has no period"),
        (
            DATES,
            Window(None, "2020-01-03"),
            Window("2020-01-09"),
            {"validation": Window("2019-01-03", "2019-01-05")},
            "validation .* has no period",
        ),
        (DATES, Window(None, "2020-01-03"), Window("2020-01-09"), {"purge": -1}, "purge -1"),
        (np.repeat(DATES, 2), Window(None, "2020-01-03"), Window("2020-01-09"), {}, "not ascending"),
        (DATES[::-1], Window(None, "2020-01-03"), Window("2020-01-09"), {}, "not ascending"),
        (np.arange(20), Window(None, "2020-01-03"), Window("2020-01-09"), {}, "datetime64"),
        (np.append(DATES, np.datetime64("NaT")), Window(None, "2020-01-03"), Window("2020-01-09"), {}, "not ascending"),
    ],
)
def test_dates_that_do_not_fit_have_a_name(dates, train, test, options, words):
    with pytest.raises(StatisticsError, match=words):
        split_by_date(dates, train, test, **options)

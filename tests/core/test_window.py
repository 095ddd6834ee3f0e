from __future__ import annotations

from datetime import date, datetime

import pytest

from alphaswarm_rl.core.errors import SpecError
from alphaswarm_rl.core.window import Window

SUMMER = Window("2020-06-01", "2020-09-01")
FIRST_QUARTER = Window("2024-01-01", "2024-03-31")


@pytest.mark.parametrize(
    ("other", "left"),
    [
        (Window("2020-09-01", None), [SUMMER]),
        (Window(None, "2020-06-01"), [SUMMER]),
        (Window(None, "2020-07-01"), [Window("2020-07-01", "2020-09-01")]),
        (Window("2020-07-01", None), [Window("2020-06-01", "2020-07-01")]),
        (Window("2020-07-01", "2020-08-01"), [Window("2020-06-01", "2020-07-01"), Window("2020-08-01", "2020-09-01")]),
        (SUMMER, []),
        (Window(), []),
    ],
)
def test_a_window_without_another_is_what_is_left_of_it(other: Window, left: list[Window]) -> None:
    assert SUMMER.without([other]) == left
    assert SUMMER.overlaps(other) is other.overlaps(SUMMER) is (left != [SUMMER])


def test_open_ends_reach_everything() -> None:
    assert Window().without([SUMMER]) == [Window(None, "2020-06-01"), Window("2020-09-01", None)]
    assert Window("2020-07-01", None).without([SUMMER]) == [Window("2020-09-01", None)]


def test_several_windows_are_taken_out_one_after_the_other() -> None:
    gone = [Window("2020-06-15", "2020-07-01"), Window("2020-06-20", "2020-08-01")]
    assert SUMMER.without(gone) == [Window("2020-06-01", "2020-06-15"), Window("2020-08-01", "2020-09-01")]
    assert SUMMER.without([]) == [SUMMER]


def test_moments_are_compared_and_not_their_spelling() -> None:
    """The same moments with an hour, with a zone, or without."""
    assert not SUMMER.overlaps(Window("2020-09-01T02:00+02:00", None))
    assert not SUMMER.overlaps(Window(None, "2020-06-01T00:00:00"))
    assert SUMMER.without([Window(None, "2020-08-31T23:00-05:00")]) == []
    assert SUMMER.without([Window("2020-06-01T00:00:00", "2020-07-01")]) == [Window("2020-07-01", "2020-09-01")]


@pytest.mark.parametrize(
    "value",
    [
        FIRST_QUARTER,
        {"start": "2024-01-01", "end": "2024-03-31"},
        {"end": "2024-03-31", "start": "2024-01-01"},
        ("2024-01-01", "2024-03-31"),
        ["2024-01-01", "2024-03-31"],
        (date(2024, 1, 1), date(2024, 3, 31)),
        {"start": date(2024, 1, 1), "end": "2024-03-31"},
    ],
)
def test_every_way_to_write_a_window_means_the_same(value):
    assert Window.of(value) == FIRST_QUARTER


def test_a_moment_keeps_its_time_of_day():
    assert Window.of((datetime(2024, 1, 1, 9, 30), None)) == Window("2024-01-01T09:30:00", None)


@pytest.mark.parametrize("value", [{}, (None, None), [None, None], {"start": None}])
def test_what_is_left_out_is_open(value):
    assert Window.of(value) == Window()


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"start": "2024-01-01", "ende": "2024-03-31"}, "unknown key 'ende'. Did you mean 'end'"),
        (("2024-01-01",), "is no window"),
        (("2024-01-01", "2024-02-01", "2024-03-01"), "is no window"),
        ("2024-01-01", "is no window"),
        ("ab", "is no window"),  # two letters are no pair of dates
        (2024, "is no window"),
        (("2024-01-01", 7), "date 7: it is not an ISO date"),
        (("2024-03-31", "2024-01-01"), "does not end after it starts"),
    ],
)
def test_anything_else_is_refused(value, why):
    with pytest.raises(SpecError) as refused:
        Window.of(value)
    assert why in str(refused.value)

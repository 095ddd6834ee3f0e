from datetime import date, datetime

import pytest

from alphaswarm_rl.core.errors import SpecError
from alphaswarm_rl.core.window import Window

FIRST_QUARTER = Window("2024-01-01", "2024-03-31")


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

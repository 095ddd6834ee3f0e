from __future__ import annotations

import pytest

from alphaswarm_rl.core.window import Window

SUMMER = Window("2020-06-01", "2020-09-01")


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

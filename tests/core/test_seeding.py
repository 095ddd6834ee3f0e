import numpy as np
import pytest

from alphaswarm_rl.core.errors import SpecError
from alphaswarm_rl.core.seeding import derived_seed, generator
from alphaswarm_rl.core.window import Window


def test_one_name_gives_one_stream_whoever_else_draws():
    first = generator(7, "env").random(5)
    generator(7, "agent").random(100)
    assert np.array_equal(generator(7, "env").random(5), first)


def test_names_and_seeds_give_different_streams():
    seeds = {derived_seed(seed, name) for seed in range(20) for name in ("env", "agent", "evaluate")}
    assert len(seeds) == 60


def test_derived_seeds_are_the_same_on_every_machine():
    assert [derived_seed(0, "env"), derived_seed(1, "env"), derived_seed(0, "agent")] == [
        1271365450,
        607646315,
        2531836003,
    ]


@pytest.mark.parametrize("date", ["foo", "2024-13-01", 5])
def test_a_window_takes_iso_dates_alone(date):
    with pytest.raises(SpecError, match="not an ISO date"):
        Window(date)


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("2022-06-01", "2021-01-01"),
        ("2021-01-01", "2021-01-01"),
        ("2021-01-01", "2021-01-01T00:00:00"),
        ("2021-01-01T12:00:00+02:00", "2021-01-01T10:00:00"),
    ],
)
def test_a_window_ends_after_it_starts(start, end):
    with pytest.raises(SpecError, match="does not end after it starts"):
        Window(start, end)


def test_a_window_may_have_moments_with_and_without_a_zone():
    assert Window("2021-01-01T12:00:00+02:00", "2021-01-01T10:00:01").start == "2021-01-01T12:00:00+02:00"


def test_windows_overlap_when_they_share_a_moment():
    first = Window("2020-01-01", "2021-01-01")
    assert first.overlaps(Window("2020-12-31", None))
    assert not first.overlaps(Window("2021-01-01", "2022-01-01"))
    assert first.overlaps(Window())
    assert not Window()

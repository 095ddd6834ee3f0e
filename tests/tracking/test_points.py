"""Which points of a journal count: worked by hand."""

import math

import pytest

from alphaswarm_rl.core.run_listener import EvaluationMetrics
from alphaswarm_rl.tracking.journal import Operation
from alphaswarm_rl.tracking.points import (
    EpisodeSums,
    counting,
    dropped,
    finite,
    has_final_point,
    missing_evaluations,
    pending_episodes,
    prefixed,
)


def history(*journal):
    """A journal of these operations, numbered from 1."""
    return [Operation(number, kind, 0, data) for number, (kind, data) in enumerate(journal, 1)]


def point(step, *names):
    return "metrics", {"step": step, "metrics": dict.fromkeys(names, 1.0)}


def drop(step, *, evaluated_too=False):
    return "drop", {"step": step, "evaluated_too": evaluated_too}


def episodes(step, count, reward, length):
    return "episodes", {"step": step, "count": count, "reward": reward, "length": length}


def test_without_a_resume_every_point_counts():
    journal = history(point(10, "train/loss"), point(20, "final/mean"), ("end", {"status": "completed"}))
    assert dropped(journal) == set()
    assert counting(journal) == journal


def test_points_beyond_the_checkpoint_are_dropped_and_those_at_it_stay():
    journal = history(point(10, "train/loss"), point(20, "train/loss"), point(21, "train/loss"), drop(20))
    assert dropped(journal) == {3}


def test_what_is_said_after_a_resume_counts():
    journal = history(point(30, "train/loss"), drop(20), point(30, "train/loss"))
    assert dropped(journal) == {1}


def test_a_second_resume_from_an_earlier_checkpoint_drops_what_the_first_kept():
    journal = history(point(10, "a"), point(20, "a"), drop(20), point(30, "a"), drop(10), point(20, "a"))
    assert dropped(journal) == {2, 4}


@pytest.mark.parametrize("name", ["validation/mean_reward", "evaluate/mean_reward", "replay/mean_reward"])
def test_evaluations_of_the_checkpoint_itself_are_dropped_where_they_are_made_again(name):
    journal = [point(10, name), point(20, name), point(20, "train/loss")]
    assert dropped(history(*journal, drop(20))) == set()
    assert dropped(history(*journal, drop(20, evaluated_too=True))) == {2}


def test_the_summary_is_dropped_wherever_it_stands():
    journal = history(point(10, "train/loss"), point(10, "final/best_reward"), drop(20))
    assert dropped(journal) == {2}


def test_episodes_are_pending_until_a_point_has_their_means():
    journal = [episodes(8, 2, 30.0, 8), point(10, "episode/reward", "episode/length"), episodes(12, 1, 7.0, 2)]
    assert pending_episodes(history(*journal)) == EpisodeSums(1, 7.0, 2)
    more = history(*journal, point(15, "validation/mean_reward"), episodes(18, 3, 3.0, 6))
    assert pending_episodes(more) == EpisodeSums(4, 10.0, 8)
    assert pending_episodes(history(*journal[:2])) == EpisodeSums()


def test_episodes_beyond_the_checkpoint_are_not_pending_and_a_dropped_point_took_none():
    journal = history(
        episodes(12, 1, 7.0, 2), episodes(18, 1, 5.0, 3), point(20, "episode/length"), episodes(22, 1, 1.0, 1), drop(12)
    )
    assert pending_episodes(journal) == EpisodeSums(1, 7.0, 2)


def test_means_of_episodes():
    assert EpisodeSums(4, 10.0, 8).means == {"episode/reward": 2.5, "episode/length": 2.0}
    assert EpisodeSums().means == {}


def test_a_sum_that_is_no_number_is_kept_as_none():
    data = EpisodeSums(1, math.inf, 3).as_data()
    assert data == {"count": 1, "reward": None, "length": 3}
    read = EpisodeSums.of(Operation(1, "episodes", 0, data))
    assert (read.count, read.length, math.isnan(read.reward)) == (1, 3, True)


def test_whether_the_summary_is_said():
    assert has_final_point(history(point(20, "train/loss"), point(20, "final/mean")))
    assert not has_final_point(history(point(20, "train/loss")))
    assert not has_final_point(history(point(20, "final/mean"), drop(20)))


def test_evaluations_that_the_journal_lacks():
    stored = [EvaluationMetrics(phase, step, {}) for phase, step in (("validation", 10), ("validation", 20))]
    journal = history(point(10, "validation/mean_reward"), point(20, "evaluate/mean_reward"))
    assert list(missing_evaluations(journal, stored)) == stored[1:]
    assert list(missing_evaluations(history(*[point(20, "validation/x"), drop(10)]), stored[1:])) == stored[1:]


def test_finite_numbers_under_a_prefix():
    values = {"mean": 2, "best": 1.5, "nan": math.nan, "flag": True, "window": "2020", "none": None}
    assert finite(prefixed("final", values)) == {"final/mean": 2.0, "final/best": 1.5}

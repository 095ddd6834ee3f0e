"""`rl runs curve`: the points of a training that count."""

import pytest

from alphaswarm_rl.core.errors import RunError
from alphaswarm_rl.db.types import utc_now
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.operations.curves import CurveQuery, run_curve
from tests.cli.calling import call
from tests.ledger.samples import SampleSpec

RUN = "00000000-0000-4000-8000-000000000001"


@pytest.fixture
def ledger(settings):
    with Ledger.open(settings) as ledger:
        yield ledger


@pytest.fixture
def add_event(ledger):
    """Appends events to a run, which the first of them makes."""
    numbers = iter(range(1, 1000))

    def add(stage, target="train", **payload):
        number = next(numbers)
        if number == 1:
            version = ledger.persist_spec(SampleSpec())
            ledger.create_run(version_id=version.id, target=target, seed=1, id=RUN)
        ledger.append_event(RUN, number, stage, utc_now(), payload)

    return add


def step(timesteps, **changed):
    """What a train.step event says."""
    metrics = {"train/loss": 0.5, "train/entropy_loss": -0.25, "train/explained_variance": None}
    payload = {"timesteps": timesteps, "episodes": 3, "mean_reward": 7.5, "steps_per_second": 100.0, "metrics": metrics}
    return {**payload, "reason": "interval", **changed}


def steps(curve):
    return [point.timesteps for point in curve.points]


def test_a_point_says_what_its_event_says(settings, add_event):
    add_event("agent.built", agent="ppo")
    add_event("train.step", **step(256, reason="time"))
    (point,) = run_curve(settings, CurveQuery("latest")).points
    assert (point.timesteps, point.reason, point.episodes, point.mean_reward) == (256, "time", 3, 7.5)
    assert (point.steps_per_second, point.loss, point.entropy, point.explained_variance) == (100.0, 0.5, 0.25, None)
    assert point.metrics["train/entropy_loss"] == -0.25


def test_points_beyond_the_checkpoint_that_a_run_went_back_to_do_not_count(settings, add_event):
    for at in (100, 200, 300):
        add_event("train.step", **step(at, mean_reward=1.0))
    add_event("agent.built", resumed_at=200)
    for at in (300, 400):
        add_event("train.step", **step(at, mean_reward=2.0))
    add_event("agent.built", resumed_at=400)
    curve = run_curve(settings, CurveQuery(RUN))
    assert [(point.timesteps, point.mean_reward) for point in curve.points] == [
        (100, 1.0),
        (200, 1.0),
        (300, 2.0),
        (400, 2.0),
    ]
    assert (curve.run_id, curve.total_points) == (RUN, 4)


@pytest.mark.parametrize(
    ("count", "shown"),
    [(1, [9]), (2, [0, 9]), (3, [0, 5, 9]), (4, [0, 3, 6, 9]), (9, [0, 1, 2, 3, 5, 6, 7, 8, 9]), (10, list(range(10)))],
)
def test_points_are_spread_evenly_and_the_last_is_always_there(settings, add_event, count, shown):
    for at in range(10):
        add_event("train.step", **step(at))
    curve = run_curve(settings, CurveQuery("latest", count))
    assert (steps(curve), curve.total_points) == (shown, 10)
    assert steps(run_curve(settings, CurveQuery("latest"))) == list(range(10))


def test_events_of_earlier_versions_are_points_of_log_intervals(settings, add_event):
    old = step(64)
    del old["reason"]
    add_event("train.step", **old)
    assert run_curve(settings, CurveQuery("latest")).points[0].reason == "interval"


@pytest.mark.parametrize(
    ("target", "status", "why"),
    [
        ("train", None, "the run has said nothing yet"),
        ("train", "failed", "the run ended before it learnt: failed"),
        ("evaluate", "completed", "a run of evaluate learns nothing"),
    ],
)
def test_a_run_without_points_says_why(settings, ledger, add_event, target, status, why):
    add_event("start", target=target)
    if status is not None:
        ledger.finish_run(RUN, status)
    curve = run_curve(settings, CurveQuery("latest"))
    assert (curve.points, curve.why_empty) == ((), why)
    answer = call("runs", "curve", "latest", "--home", settings.home)
    assert (answer.code, answer.out.strip()) == (0, f"there are no points: {why}")


def test_an_unknown_run_is_refused(settings, ledger):
    with pytest.raises(RunError):
        run_curve(settings, CurveQuery("abcdef"))


def test_the_table_leaves_out_what_no_point_has_and_says_how_many_there_are(settings, add_event):
    for at in (128, 256, 384):
        add_event("train.step", **step(at))
    shown = call("runs", "curve", "latest", "--points", 2, "--home", settings.home).out.splitlines()
    assert shown[0].split() == ["STEPS", "EPISODES", "MEAN", "REWARD", "STEPS/S", "LOSS", "ENTROPY"]
    assert [line.split() for line in shown[1:3]] == [
        ["128", "3", "7.5", "100", "0.5", "0.25"],
        ["384", "3", "7.5", "100", "0.5", "0.25"],
    ]
    assert shown[3:] == ["", "2 of 3 points; more: --points"]
    assert call("runs", "curve", "latest", "--home", settings.home).out.count("\n") == 4
    assert call("runs", "curve", "latest", "--points", 0, "--home", settings.home).code == 2

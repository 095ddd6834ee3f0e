"""A training says where it is: at log intervals, after a second of silence, and where it ends."""

import logging
from contextlib import ExitStack

import pytest

from alphaswarm_rl.runtime import RLRuntime, pace, session
from alphaswarm_rl.runtime.pace import Pace
from alphaswarm_rl.runtime.progress import ProgressBar, ProgressLines, progress_of
from alphaswarm_rl.settings import Settings
from tests.ledger.troubles import locked
from tests.runtime.conftest import tiny
from tests.tracking.test_runs import folder_of, points_of

#: One rollout of the tiny spec.
ROLLOUT = 32 * 4


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    """The clock of the pace of trainings."""
    clock = Clock()
    monkeypatch.setattr(pace, "time", clock)
    return clock


@pytest.fixture
def rollouts_take(clock, monkeypatch):
    """Lets every rollout take so many seconds."""

    def takes(seconds):
        boundary = session.TrainingSession.boundary

        def later(self, metrics):
            clock.now += seconds
            boundary(self, metrics)

        monkeypatch.setattr(session.TrainingSession, "boundary", later)

    return takes


def steps_of(ledger, run_id):
    """Transitions and reason of every train.step event."""
    events = [event.payload for event in ledger.events(run_id) if event.stage == "train.step"]
    return [(payload["timesteps"], payload["reason"]) for payload in events]


def test_a_training_shorter_than_a_log_interval_has_a_point_at_its_end(train, ledger, clock):
    result = train(training={"log_interval": 10})
    (last,) = [event.payload for event in ledger.events(result.run_id) if event.stage == "train.step"]
    assert (last["timesteps"], last["reason"]) == (512, "end")
    assert last["metrics"].keys() >= {"train/loss", "train/entropy_loss", "train/explained_variance"}
    assert last["episodes"] > 0


def test_the_end_is_said_once_whether_an_interval_ends_there_or_not(train, ledger, clock):
    result = train(training={"log_interval": 2, "total_timesteps": 5 * ROLLOUT})
    assert steps_of(ledger, result.run_id) == [(256, "interval"), (512, "interval"), (640, "end")]
    result = train(training={"log_interval": 2, "total_timesteps": 4 * ROLLOUT})
    assert steps_of(ledger, result.run_id) == [(256, "interval"), (512, "interval")]


def test_a_second_of_silence_is_an_event_and_less_is_none(train, ledger, rollouts_take):
    rollouts_take(0.5)
    result = train(training={"log_interval": 5, "total_timesteps": 8 * ROLLOUT})
    # After two rollouts of half a second each; from an interval on the silence begins anew.
    assert steps_of(ledger, result.run_id) == [
        (2 * ROLLOUT, "time"),
        (4 * ROLLOUT, "time"),
        (5 * ROLLOUT, "interval"),
        (7 * ROLLOUT, "time"),
        (8 * ROLLOUT, "end"),
    ]


def test_rates_are_those_since_the_last_event_and_of_whole_intervals(train, ledger, rollouts_take):
    rollouts_take(0.5)
    result = train(training={"log_interval": 3, "total_timesteps": 6 * ROLLOUT})
    events = [event.payload for event in ledger.events(result.run_id) if event.stage == "train.step"]
    assert [event["timesteps"] // ROLLOUT for event in events] == [2, 3, 5, 6]
    assert [event["steps_per_second"] for event in events] == [2.0 * ROLLOUT] * 4


def test_the_clock_changes_nothing_but_events(train, ledger, settings, tmp_path, rollouts_take):
    training = {"log_interval": 3, "total_timesteps": 7 * ROLLOUT}
    quiet = train(training=training)
    rollouts_take(1.0)
    other = Settings(home=tmp_path / "other")
    chatty = RLRuntime(tiny(training=training), other).train()
    with type(ledger).open(other) as of_other:
        assert [step // ROLLOUT for step, _ in steps_of(of_other, chatty.run_id)] == [1, 2, 3, 4, 5, 6, 7]
        assert steps_of(ledger, quiet.run_id) == [
            step for step in steps_of(of_other, chatty.run_id) if step[1] != "time"
        ]
        episodes = [[vars(row) | {"run_id": None} for row in each] for each in (
            ledger.episodes(quiet.run_id), of_other.episodes(chatty.run_id))]  # fmt: skip
        seqs = [event.seq for event in of_other.events(chatty.run_id)]
    assert seqs == list(range(1, len(seqs) + 1))
    assert episodes[0] == episodes[1]
    assert quiet.checkpoint_sha256 == chatty.checkpoint_sha256
    points = [
        [(point["step"], {**point["metrics"], "steps_per_second": None}) for point in points_of(folder_of(where, run))]
        for where, run in ((settings, quiet.run_id), (other, chatty.run_id))
    ]
    assert points[0] == points[1]


def test_no_training_waits_for_a_ledger_that_takes_nothing_to_say_that_it_is_alive(settings, ledger, rollouts_take):
    rollouts_take(1.0)
    slow, lock = session.TrainingSession.boundary, ExitStack()

    def boundary(self, metrics):
        number = self.learner.timesteps // ROLLOUT
        if number == 2:
            lock.enter_context(locked(settings.home / "ledger.db"))
        elif number == 4:
            lock.close()
        slow(self, metrics)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session.TrainingSession, "boundary", boundary)
        result = RLRuntime(tiny(training={"log_interval": 10, "total_timesteps": 5 * ROLLOUT}), settings).train()
    assert [step // ROLLOUT for step, _ in steps_of(ledger, result.run_id)] == [1, 4, 5]
    seqs = [event.seq for event in ledger.events(result.run_id)]
    assert seqs == list(range(1, len(seqs) + 1))


def test_a_halted_training_says_where_it_stopped_and_its_tracker_has_no_point_of_it(settings, ledger, clock):
    spec = tiny(training={"log_interval": 10, "eval_during_training": True, "eval_freq": ROLLOUT})
    stop = RLRuntime(spec, settings, stop_when=lambda event: "enough" if event.stage == "eval.step" else None)
    halted = stop.train()
    assert steps_of(ledger, halted.run_id) == [(ROLLOUT, "halt")]
    resumed = RLRuntime.from_run(halted.run_id, settings).resume()
    assert steps_of(ledger, resumed.run_id) == [(ROLLOUT, "halt"), (512, "end")]
    points = points_of(folder_of(settings, resumed.run_id))
    assert [point["step"] for point in points if "steps_per_second" in point["metrics"]] == [512]


def test_a_pace_counts_from_its_moment(clock):
    going = Pace(100)
    clock.now += 4.0
    assert (going.first, going.seconds, going.rate(300)) == (100, 4.0, 50.0)


def test_a_line_every_ten_seconds_says_where_the_training_is(clock, monkeypatch, caplog):
    monkeypatch.setattr("alphaswarm_rl.runtime.progress.time", clock)
    lines = progress_of("0123456789", 10_000, bar=False)
    assert isinstance(lines, ProgressLines)
    with lines.counting_from(2000) as lines, caplog.at_level(logging.INFO, "alphaswarm_rl"):
        clock.now += 9.9
        assert not lines.is_due()
        clock.now += 0.1
        assert lines.is_due()
        lines.show(4000, 21.517)
        assert not lines.is_due()
        clock.now += 10.0
        assert lines.is_due()
        lines.show(4000, None)
        lines.finish(10_000, 3.0)
    assert [record.getMessage() for record in caplog.records] == [
        "run 01234567: 4,000 of 10,000 transitions, 200 per second, 0:00:30 left, mean reward 21.52",
        "run 01234567: 4,000 of 10,000 transitions, 100 per second, 0:01:00 left",
    ]


def test_where_nothing_was_done_nobody_knows_the_time_left(clock, caplog):
    with caplog.at_level(logging.INFO, "alphaswarm_rl"):
        ProgressLines("run", 5).counting_from(3).show(3, None)
    assert caplog.messages == ["run run: 3 of 5 transitions, 0 per second, unknown time left"]


def test_a_first_step_that_took_long_says_nothing_about_the_time_left(clock, caplog):
    lines = ProgressLines("run", 2000)
    with caplog.at_level(logging.INFO, "alphaswarm_rl"):
        for done in (4, 20):
            clock.now += 10.0
            lines.show(done, None)
        long = ProgressLines("run", 10_000_000)
        clock.now += 10.0
        long.show(1000, None)
    assert caplog.messages == [
        "run run: 4 of 2,000 transitions, 0.4 per second, unknown time left",
        "run run: 20 of 2,000 transitions, 1 per second, 0:33:00 left",
        "run run: 1,000 of 10,000,000 transitions, 100 per second, 1 day, 3:46:30 left",
    ]


def test_a_terminal_shows_a_bar(capsys):
    bar = progress_of("run", 1000, bar=True)
    assert isinstance(bar, ProgressBar)
    with bar.counting_from(0):
        bar.finish(1000, 2.5)
    shown = capsys.readouterr().err
    assert "1000/1000" in shown
    assert "mean reward 2.50" in shown

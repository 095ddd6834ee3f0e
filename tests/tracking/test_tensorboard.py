"""Event files: one record per point, whoever is killed when, and TensorBoard's own reader finds them."""

import json
import time

import pytest

from alphaswarm_rl.core.errors import MissingExtra, TrackingError
from alphaswarm_rl.runtime import RLRuntime
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.tracking import destination as destinations
from alphaswarm_rl.tracking import waiting
from alphaswarm_rl.tracking.journal import Journal, Operation
from alphaswarm_rl.tracking.tensorboard_tracker import TensorBoardTracker, _whole_records
from tests.runtime.conftest import tiny

RUN = "11111111-2222-3333-4444-555555555555"


@pytest.fixture
def opened(tmp_path):
    """Opens the tracker, as a process does that begins to deliver."""

    def make():
        tracker = TensorBoardTracker(tmp_path, "lab", RUN)
        tracker.begin("tuesday", 1000)
        return tracker

    return make


def scalars(folder):
    """Every scalar as TensorBoard reads it: by tag, time, step and value."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder)).Reload()
    return {
        tag: [(point.wall_time, point.step, point.value) for point in found.Scalars(tag)]
        for tag in found.Tags()["scalars"]
    }


def event_file(folder):
    (path,) = folder.glob("events.out.tfevents.*")
    return path


def point(number, step, **metrics):
    return Operation(number, "metrics", step, {"step": step, "metrics": metrics})


def test_a_point_is_read_back_with_its_time_step_and_value(opened):
    tracker = opened()
    tracker.metrics(5, 1_700_000_000_250, 64, {"train/loss": 0.5, "fps": 100.0})
    tracker.metrics(6, 1_700_000_001_500, 128, {"train/loss": 0.25})
    assert scalars(tracker.folder) == {
        "train/loss": [(1_700_000_000.25, 64, 0.5), (1_700_000_001.5, 128, 0.25)],
        "fps": [(1_700_000_000.25, 64, 100.0)],
    }
    assert RUN in event_file(tracker.folder).name


def test_a_point_that_is_told_again_is_there_once(opened):
    opened().metrics(5, 1000, 64, {"loss": 0.5})
    tracker = opened()
    tracker.metrics(5, 1000, 64, {"loss": 0.5})
    tracker.metrics(6, 1000, 128, {"loss": 0.25})
    assert [step for _, step, _ in scalars(tracker.folder)["loss"]] == [64, 128]
    assert _whole_records(event_file(tracker.folder)) == 4


@pytest.mark.parametrize("share", [0.0, 0.01, 0.2, 0.4, 0.6, 0.8, 0.99])
def test_what_a_killed_process_left_half_written_is_mended(opened, share):
    tracker = opened()
    for number, step in enumerate((64, 128, 192)):
        tracker.metrics(number + 1, 1000, step, {"loss": 1.0 / step})
    path = event_file(tracker.folder)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    again = opened()
    assert event_file(again.folder).read_bytes() == whole
    again.metrics(4, 1000, 256, {"loss": 1.0})
    assert [step for _, step, _ in scalars(again.folder)["loss"]] == [64, 128, 192, 256]


def test_an_event_file_that_somebody_deleted_is_written_again(opened):
    tracker = opened()
    tracker.metrics(1, 1000, 64, {"loss": 0.5})
    event_file(tracker.folder).unlink()
    assert scalars(opened().folder) == {"loss": [(1.0, 64, 0.5)]}


def test_points_that_count_no_more_are_gone_from_a_file_with_a_later_name(opened):
    tracker = opened()
    tracker.metrics(1, 1000, 64, {"loss": 0.5})
    tracker.metrics(2, 1000, 128, {"loss": 9.0})
    first = event_file(tracker.folder)
    time.sleep(0.002)
    tracker.drop([point(2, 128, loss=9.0)], [point(1, 64, loss=0.5)])
    assert event_file(tracker.folder).name > first.name
    assert scalars(tracker.folder) == {"loss": [(1.0, 64, 0.5)]}
    tracker.metrics(3, 1000, 128, {"loss": 0.25})
    assert [value for *_, value in scalars(tracker.folder)["loss"]] == [0.5, 0.25]
    # Told once more what counts no more, it changes nothing.
    before = event_file(tracker.folder)
    tracker.drop([point(2, 128, loss=9.0)], [])
    assert event_file(tracker.folder) == before


def test_a_process_killed_while_it_takes_points_back_leaves_nothing_of_them(opened, monkeypatch):
    tracker = opened()
    tracker.metrics(1, 1000, 64, {"loss": 0.5})
    tracker.metrics(2, 1000, 128, {"loss": 9.0})

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(TensorBoardTracker, "_write", killed)
    with pytest.raises(KeyboardInterrupt):
        tracker.drop([point(2, 128, loss=9.0)], [])
    monkeypatch.undo()
    again = opened()
    again.drop([point(2, 128, loss=9.0)], [])
    assert scalars(again.folder) == {"loss": [(1.0, 64, 0.5)]}


def test_a_run_is_tracked_by_tensorboard_as_it_is_by_files(tracked):
    settings = tracked("tensorboard")
    result = RLRuntime(tiny(training={"log_interval": 3}), settings).train()
    assert result.notices == []
    folder = settings.tracking_path / "rl-experiment" / result.run_id
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    in_files: dict[str, list[int]] = {}
    for line in lines:
        for name in line["metrics"]:
            in_files.setdefault(name, []).append(line["step"])
    found = scalars(folder)
    assert {tag: [step for _, step, _ in points] for tag, points in found.items()} == in_files
    assert [step for _, step, _ in found["train/loss"]] == [384, 512]
    assert found["final/mean_reward"][0][2] == pytest.approx(result.metrics["mean_reward"])
    assert json.loads((folder / "run.json").read_text())["status"] == "completed"


def test_it_has_no_address_and_needs_its_extra(settings, monkeypatch):
    wrong = Settings(home=settings.home, store={"backend": "tensorboard", "tracking_uri": "http://localhost:6006"})
    with pytest.raises(TrackingError, match="the back-end tensorboard writes plain files"):
        RLRuntime(tiny(), wrong).train()
    monkeypatch.setattr(destinations, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"alphaswarm-rl\[tensorboard\]"):
        RLRuntime(tiny(), Settings(home=settings.home, store={"backend": "tensorboard"})).train()


def test_its_journal_cannot_be_sent_elsewhere(tmp_path):
    journal = Journal(tmp_path, RUN)
    destination = destinations.Destination("tensorboard", "lab")
    journal.append("begin", name="tuesday", destination=destination.as_data())
    journal.close()
    with pytest.raises(TrackingError, match="which have no address"):
        waiting.move(tmp_path, RUN, "http://other:5000")

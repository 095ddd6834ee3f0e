"""One contract for all trackers: what a journal says can be read back by the tracker's own client, once."""

import json
from dataclasses import replace

import numpy as np
import pytest

from alphaswarm_rl.tracking import delivery
from alphaswarm_rl.tracking.courier import ProcessCourier, deliver_now
from alphaswarm_rl.tracking.delivery import Delivery
from alphaswarm_rl.tracking.destination import Destination
from alphaswarm_rl.tracking.journal import Journal, journal_path, operations, read_state
from alphaswarm_rl.tracking.waiting import standing
from tests.tracking import telling
from tests.tracking.telling import EXPECTED, RUN, checkpoint, tell

BACKENDS = ("local", "tensorboard", "s3", "mlflow", "wandb")


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "home" / "tracking" / "journal"


@pytest.fixture
def made(tmp_path):
    return checkpoint(tmp_path / "models" / "000000000128")


@pytest.fixture(params=BACKENDS)
def tracker(request, folder, tmp_path, monkeypatch):
    """A destination, and what is seen there."""
    root = folder.parent
    experiment = f"contract {request.node.name}"
    if request.param == "s3":
        bucket, client = request.getfixturevalue("bucket")
        endpoint = request.getfixturevalue("s3_server")
        destination = Destination("s3", "lab", f"s3://{bucket}/some/prefix", endpoint, "us-east-1")
        return destination, lambda: telling.seen_in_bucket(client, bucket, f"some/prefix/lab/{RUN}")
    if request.param == "mlflow":
        server, client = request.getfixturevalue("mlflow_server"), request.getfixturevalue("client")
        destination = Destination("mlflow", experiment, server.uri)
        return destination, lambda: telling.seen_in_mlflow(client, experiment, RUN, tmp_path / "down")
    if request.param == "wandb":
        monkeypatch.setenv("WANDB_MODE", "offline")
        return Destination("wandb", "lab"), lambda: telling.seen_in_wandb(root, RUN)
    if request.param == "tensorboard":
        return Destination("tensorboard", "lab"), lambda: telling.seen_in_tensorboard(root / "lab" / RUN)
    return Destination("local", "lab"), lambda: telling.seen_in_files(root / "lab" / RUN)


def test_a_tracker_has_what_the_journal_says_once_and_what_comes_later_joins_it(tracker, folder, made):
    destination, seen = tracker
    tell(folder, destination, made)
    deliver_now(folder, [RUN], None)
    found = standing(folder, RUN)
    assert (found.waiting, found.problem, found.set_aside) == (0, None, ())
    assert seen() == EXPECTED
    # A process was killed before it could say how far it was: all is told once more, and then something new.
    (folder / f"{RUN}.state.json").unlink()
    journal = Journal(folder, RUN)
    journal.append("begin", name="tuesday", destination=destination.as_data())
    journal.append("metrics", step=192, metrics={"train/loss": 0.125})
    journal.append("end", status="completed")
    deliver_now(folder, [RUN], None)
    joined = {**EXPECTED.metrics, "train/loss": [*EXPECTED.metrics["train/loss"], (192, 0.125)]}
    assert seen() == replace(EXPECTED, metrics=joined)
    assert standing(folder, RUN).waiting == 0


def resumed(folder, destination, *points, ended=True):
    """A run goes on from its checkpoint at 64, and says these points."""
    journal = Journal(folder, RUN)
    journal.append("begin", name="tuesday", destination=destination.as_data())
    journal.append("drop", step=64, evaluated_too=False)
    for step, metrics in points:
        journal.append("metrics", step=step, metrics=metrics)
    if ended:
        journal.append("end", status="completed")
    journal.close()


@pytest.mark.parametrize("again", [0.25, 0.75])
def test_points_that_a_resume_dropped_are_in_no_tracker_and_those_made_again_are_there_once(
    tracker, folder, made, again
):
    destination, seen = tracker
    tell(folder, destination, made)
    deliver_now(folder, [RUN], None)
    resumed(folder, destination, (128, {"train/loss": again}), (128, {"final/mean": 21.5}))
    joined = {**EXPECTED.metrics, "train/loss": [(64, 0.5), (128, again)]}
    for _ in range(2):
        deliver_now(folder, [RUN], None)
        found = seen()
        assert found.metrics == joined
        assert found == replace(EXPECTED, metrics=joined)
        assert standing(folder, RUN).waiting == 0
        # A process was killed before it could say how far it was.
        (folder / f"{RUN}.state.json").unlink()


def test_the_password_of_an_address_comes_from_the_settings_and_is_not_kept(folder, made, monkeypatch):
    secret = "http://me:s3cret@127.0.0.1:9/x"
    path = tell(folder, Destination("mlflow", "lab", secret), made)
    opened = []
    monkeypatch.setattr(delivery, "open_tracker", lambda destination, *_: opened.append(destination.uri))
    Delivery(folder, RUN, secret).once()
    Delivery(folder, RUN, "http://other:5000").once()
    assert opened == [secret]
    assert "does not keep" in standing(folder, RUN).problem
    assert not any("s3cret" in file.read_text() for file in (path, folder / f"{RUN}.state.json"))


def test_an_artefact_that_is_gone_is_set_aside_and_the_rest_goes_on(folder, made):
    tell(folder, Destination("local", "lab"), made)
    (made / "checkpoint.json").write_text("{} ")
    deliver_now(folder, [RUN], None)
    found = standing(folder, RUN)
    assert found.waiting == 0
    assert "was changed since" in found.set_aside[0]
    assert telling.seen_in_files(folder.parent / "lab" / RUN).status == "completed"


def test_an_artefact_that_another_replaced_is_not_missed(folder, made, tmp_path):
    journal = Journal(folder, RUN)
    journal.append("begin", name="x", destination=Destination("local", "lab").as_data())
    journal.append("artefact", name="checkpoints/last", path=str(tmp_path / "pruned"), sha256="0")
    journal.append("artefact", name="checkpoints/last", path=str(made), sha256=None)
    Delivery(folder, RUN).once()
    assert standing(folder, RUN).set_aside == ()
    artefacts = json.loads((folder.parent / "lab" / RUN / "artefacts.json").read_text())
    assert artefacts["checkpoints/last"]["path"] == str(made)


def test_a_line_that_cannot_be_read_is_set_aside(folder, made):
    path = tell(folder, Destination("local", "lab"), made, ended=False)
    with path.open("a") as file:
        file.write("\x00\x00\n")
    journal = Journal(folder, RUN)
    journal.append("metrics", step=256, metrics={"train/loss": 0.0})
    assert Delivery(folder, RUN).once()
    assert "cannot be read" in standing(folder, RUN).set_aside[0]
    points = (folder.parent / "lab" / RUN / "metrics.jsonl").read_text().splitlines()
    assert json.loads(points[-1])["step"] == 256


@pytest.mark.slow
def test_an_mlflow_run_that_was_deleted_is_made_anew_with_its_whole_history(
    client, mlflow_server, folder, made, tmp_path
):
    destination = Destination("mlflow", "deleted", mlflow_server.uri)
    tell(folder, destination, made, ended=False)
    deliver_now(folder, [RUN], None)
    (first,) = telling.mlflow_runs(client, "deleted", RUN)
    client.delete_run(first.info.run_id)
    journal = Journal(folder, RUN)
    journal.append("end", status="halted")
    deliver_now(folder, [RUN], None)
    seen = telling.seen_in_mlflow(client, "deleted", RUN, tmp_path / "down")
    assert (seen.status, seen.metrics) == ("killed", EXPECTED.metrics)
    assert read_state(folder, RUN).tracker_run != first.info.run_id


def test_mlflow_sets_aside_what_it_calls_a_bad_request(client, mlflow_server, folder, made, tmp_path):
    destination = Destination("mlflow", "bad", mlflow_server.uri)
    tell(folder, destination, made, ended=False)
    journal = Journal(folder, RUN)
    journal.append("params", params={"agent.class": "dqn"})  # MLflow never changes a param
    journal.append("end", status="failed")
    deliver_now(folder, [RUN], None)
    found = standing(folder, RUN)
    assert found.waiting == 0
    assert len(found.set_aside) == 1
    seen = telling.seen_in_mlflow(client, "bad", RUN, tmp_path / "down")
    assert (seen.status, seen.params) == ("failed", telling.PARAMS)


def test_what_mlflow_does_not_take_of_many_is_set_aside_alone(client, mlflow_server, folder, made, tmp_path):
    tell(folder, Destination("mlflow", "long names", mlflow_server.uri), made, ended=False)
    name, journal = "x" * 300, Journal(folder, RUN)
    journal.append("params", params={"agent.good": "1", f"agent.{name}": "2"})
    for step in (192, 256):
        journal.append("metrics", step=step, metrics={"train/loss": 0.0, f"train/{name}": 1.0})
    journal.append("artefact", name="%2e%2e/spec.yaml", text="x")
    journal.append("end", status="completed")
    Delivery(folder, RUN).once()
    found = standing(folder, RUN)
    assert (found.waiting, found.problem) == (0, None)
    params, artefact, metric = found.set_aside
    assert "params: agent.xxx" in params
    assert "the metric train/xxx" in metric
    assert "the artefact %2e%2e/spec.yaml: 400" in artefact
    assert all("length" in reason for reason in (params, metric))
    seen = telling.seen_in_mlflow(client, "long names", RUN, tmp_path / "down")
    expected = {**EXPECTED.metrics, "train/loss": [*EXPECTED.metrics["train/loss"], (192, 0.0), (256, 0.0)]}
    assert (seen.status, seen.metrics) == ("completed", expected)
    assert seen.params == {**telling.PARAMS, "agent.good": "1"}


def test_an_mlflow_run_that_is_deleted_while_it_is_told_is_made_anew(client, mlflow_server, folder, made, tmp_path):
    tell(folder, Destination("mlflow", "deleted meanwhile", mlflow_server.uri), made, ended=False)
    courier = Delivery(folder, RUN)
    assert courier.once()
    (first,) = telling.mlflow_runs(client, "deleted meanwhile", RUN)
    client.delete_run(first.info.run_id)
    journal = Journal(folder, RUN)
    journal.append("metrics", step=192, metrics={"train/loss": 0.0})
    assert not courier.once()
    assert courier.once()
    assert standing(folder, RUN).set_aside == ()
    seen = telling.seen_in_mlflow(client, "deleted meanwhile", RUN, tmp_path / "down")
    assert seen.metrics["train/loss"] == [*EXPECTED.metrics["train/loss"], (192, 0.0)]


def test_mlflow_recognises_points_that_are_made_again_and_keeps_its_run(client, mlflow_server, folder, made, tmp_path):
    destination = Destination("mlflow", "made again", mlflow_server.uri)
    tell(folder, destination, made, ended=False)
    journal = Journal(folder, RUN)
    journal.append("metrics", step=128, metrics={"steps_per_second": 10.0})
    journal.close()
    Delivery(folder, RUN).once()
    (first,) = telling.mlflow_runs(client, "made again", RUN)
    resumed(folder, destination, (128, {"train/loss": 0.25, "steps_per_second": 12.0}), ended=False)
    # One process is stopped in the middle, and another goes on: both recognise what the server has.
    assert Delivery(folder, RUN).once()
    journal = Journal(folder, RUN)
    journal.append("metrics", step=128, metrics={"final/mean": 21.5})
    journal.append("end", status="completed")
    assert Delivery(folder, RUN).once()
    (again,) = telling.mlflow_runs(client, "made again", RUN)
    assert again.info.run_id == first.info.run_id
    seen = telling.seen_in_mlflow(client, "made again", RUN, tmp_path / "down")
    # A rate is of the clock: the one that was told first stays.
    assert seen.metrics == {**EXPECTED.metrics, "steps_per_second": [(128, 10.0)]}


def test_an_mlflow_run_with_points_that_are_not_made_again_is_made_anew_with_what_people_wrote(
    client, mlflow_server, folder, made, tmp_path
):
    destination = Destination("mlflow", "not made again", mlflow_server.uri)
    tell(folder, destination, made, ended=False)
    Delivery(folder, RUN).once()
    (first,) = telling.mlflow_runs(client, "not made again", RUN)
    client.set_tag(first.info.run_id, "mlflow.note.content", "a good one")
    client.set_tag(first.info.run_id, "judge", "me")
    resumed(folder, destination, (192, {"train/loss": 0.1}), ended=False)
    assert Delivery(folder, RUN).once()
    (same,) = telling.mlflow_runs(client, "not made again", RUN)
    assert same.info.run_id == first.info.run_id  # the run goes on, and may make them yet
    journal = Journal(folder, RUN)
    journal.append("end", status="interrupted")
    assert Delivery(folder, RUN).once()
    (again,) = telling.mlflow_runs(client, "not made again", RUN)
    assert read_state(folder, RUN).tracker_run == again.info.run_id != first.info.run_id
    assert client.get_run(first.info.run_id).info.lifecycle_stage == "deleted"
    assert (again.data.tags["mlflow.note.content"], again.data.tags["judge"]) == ("a good one", "me")
    seen = telling.seen_in_mlflow(client, "not made again", RUN, tmp_path / "down")
    assert seen.metrics == {"train/loss": [(64, 0.5), (192, 0.1)], "episode/reward": [(64, 20.0)]}
    assert (seen.status, seen.params) == ("killed", telling.PARAMS)


def test_a_model_whose_artefact_was_set_aside_is_set_aside_too(folder, made, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    tell(folder, Destination("wandb", "lab"), made)
    (made / "checkpoint.json").write_text("{} ")
    deliver_now(folder, [RUN], None)
    found = standing(folder, RUN)
    assert found.waiting == 0
    artefact, model = found.set_aside
    assert "was changed since" in artefact
    assert "the model champion: its artefact checkpoints/last was set aside" in model


@pytest.mark.slow
def test_many_points_are_sent_by_many(client, mlflow_server, folder, tmp_path):
    journal = Journal(folder, RUN)
    journal.append("begin", name="x", destination=Destination("mlflow", "many", mlflow_server.uri).as_data())
    for step in range(1500):
        journal.append("metrics", step=step, metrics={"train/loss": step / 2})
    deliver_now(folder, [RUN], None)
    assert len(list(operations(journal_path(folder, RUN)))) == 1501
    seen = telling.seen_in_mlflow(client, "many", RUN, tmp_path / "down")
    assert seen.metrics["train/loss"] == [(step, step / 2) for step in range(1500)]


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["mlflow", "s3"])
def test_a_courier_killed_at_any_moment_doubles_nothing(backend, request, folder, made, tmp_path):
    if backend == "mlflow":
        server, client = request.getfixturevalue("mlflow_server"), request.getfixturevalue("client")
        destination = Destination("mlflow", "killed couriers", server.uri)
    else:
        bucket, client = request.getfixturevalue("bucket")
        destination = Destination("s3", "lab", f"s3://{bucket}", request.getfixturevalue("s3_server"), "us-east-1")
    tell(folder, destination, made)
    journal = Journal(folder, RUN)
    for step in range(2500):
        journal.append("metrics", step=step, metrics={"train/more": step / 2})
    for kill_after in np.random.default_rng(5).uniform(1.0, 6.0, 8):
        (folder / f"{RUN}.state.json").unlink(missing_ok=True)
        ProcessCourier(folder, {RUN: None}, follows=False).finish(kill_after)
    deliver_now(folder, [RUN], None)
    if backend == "mlflow":
        seen = telling.seen_in_mlflow(client, "killed couriers", RUN, tmp_path / "down")
    else:
        seen = telling.seen_in_bucket(client, bucket, f"lab/{RUN}")
    more = {"train/more": [(step, step / 2) for step in range(2500)]}
    assert seen == replace(EXPECTED, metrics={**EXPECTED.metrics, **more})

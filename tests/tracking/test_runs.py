"""Runs and their trackers."""

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from alphaswarm_rl.core.errors import TrackingError
from alphaswarm_rl.inference.checkpoints import load_checkpoint
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.runtime import RLRuntime
from alphaswarm_rl.settings import LakeSettings, Settings
from alphaswarm_rl.tracking.courier import ProcessCourier
from alphaswarm_rl.tracking.destination import Destination
from alphaswarm_rl.tracking.journal import Journal, journal_path, operations
from alphaswarm_rl.tracking.listener import journal_folder
from alphaswarm_rl.tracking.waiting import standing
from tests.cli.calling import call
from tests.runtime.conftest import tiny
from tests.tracking import telling
from tests.tracking.servers import closed_port


def folder_of(settings, run, experiment="rl-experiment"):
    return settings.tracking_path / experiment / run


def read(folder, name):
    return json.loads((folder / f"{name}.json").read_text())


def points_of(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_a_training_run_is_tracked_in_plain_files(settings, ledger):
    spec = tiny(training={"eval_during_training": True, "eval_freq": 256}, mlflow={"tags": {"team": "blue"}})
    result = RLRuntime(spec, settings).train()
    folder = folder_of(settings, result.run_id)
    run = read(folder, "run")
    assert (run["status"], run["name"].startswith("ppo-20")) == ("completed", True)
    tags = read(folder, "tags")
    row = ledger.run(result.run_id)
    assert (
        tags.items()
        >= {
            "rl_run_id": row.id,
            "spec_hash": row.spec_hash,
            "exec_hash": row.exec_hash,
            "target": "train",
            "seed": "3",
            "team": "blue",
            "status": "completed",
            "checkpoint_sha256": row.checkpoint_sha256,
        }.items()
    )
    params = read(folder, "params")
    assert params["agent.class"] == "ppo"
    assert params["agent.kwargs.net_arch"] == "[8]"
    assert params["training.total_timesteps"] == "512"
    assert params["training.seed"] == "3"

    points = points_of(folder)
    steps = [event for event in ledger.events(row.id) if event.stage == "train.step"]
    by_step = {point["step"]: point["metrics"] for point in points if "steps_per_second" in point["metrics"]}
    assert list(by_step) == [event.payload["timesteps"] for event in steps]
    for event in steps:
        metrics = by_step[event.payload["timesteps"]]
        assert metrics["episode/finished"] == event.payload["episodes"]
        finite = {name: value for name, value in event.payload["metrics"].items() if value is not None}
        assert finite.items() <= metrics.items()
        assert finite
    # Every episode is in one of the means.
    episodes = ledger.episodes(row.id, phase="train")
    first = [episode for episode in episodes if episode.timesteps <= steps[0].payload["timesteps"]]
    mean = sum(episode.mean_reward * episode.count for episode in first) / sum(episode.count for episode in first)
    assert by_step[steps[0].payload["timesteps"]]["episode/reward"] == pytest.approx(mean)
    judged = [
        (name.partition("/")[0], point["step"])
        for point in points
        for name in point["metrics"]
        if "mean_reward" in name
    ]
    assert judged == [("validation", 256), ("validation", 512), ("evaluate", 512), ("final", 512)]
    assert points[-1]["metrics"]["final/mean_reward"] == result.metrics["mean_reward"]

    artefacts = read(folder, "artefacts")
    assert artefacts["checkpoints/last"]["sha256"] == row.checkpoint_sha256
    best = load_checkpoint(Path(artefacts["checkpoints/best"]["path"]))
    assert (str(best.checkpoint.path), best.checkpoint.sha256) == (
        row.best_checkpoint,
        artefacts["checkpoints/best"]["sha256"],
    )
    assert (folder / "spec.yaml").read_text() == spec.to_yaml()
    assert not (folder / "models.json").exists()
    assert row.notices == []


def test_judging_runs_are_tracked_with_their_parent(settings):
    trained = RLRuntime(tiny(mlflow={"experiment": "the lab"}), settings).train()
    runtime = RLRuntime.from_run(trained.run_id, settings)
    for verb in ("evaluate", "replay"):
        result = getattr(runtime, verb)(seed=9)
        folder = folder_of(settings, result.run_id, "the lab")
        assert read(folder, "tags")["parent_run_id"] == trained.run_id
        assert read(folder, "tags")["target"] == verb
        assert read(folder, "run")["status"] == "completed"
        assert {f"{verb}/mean_reward", "final/mean_reward"} <= {
            name for point in points_of(folder) for name in point["metrics"]
        }


def test_tracking_changes_nothing_about_a_run(settings, tmp_path):
    store = {"backend": "mlflow", "tracking_uri": f"http://127.0.0.1:{closed_port()}"}
    tracked = Settings(home=tmp_path / "other", store=store)
    one, other = RLRuntime(tiny(), settings).train(), RLRuntime(tiny(), tracked).train()
    assert one.checkpoint_sha256 == other.checkpoint_sha256


def test_a_run_that_fails_says_so_to_its_tracker(settings, ledger):
    def trip(event):
        if event.stage == "train.step":
            raise RuntimeError("tripped")

    with pytest.raises(Exception, match="tripped"):
        RLRuntime(tiny(), settings, sinks=[trip]).train()
    row = ledger.run("latest")
    assert read(folder_of(settings, row.id), "run")["status"] == "failed"
    assert "tripped" in read(folder_of(settings, row.id), "tags")["error"]


@pytest.mark.parametrize("backend", ["mlflow", "wandb", "s3"])
def test_a_tracker_that_refuses_costs_a_run_a_notice_and_no_time(tracked, backend, monkeypatch, caplog):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    port = closed_port()
    address = "s3://bucket/x" if backend == "s3" else f"http://127.0.0.1:{port}"
    settings = tracked(
        backend, address, lake=LakeSettings(s3_endpoint=f"http://127.0.0.1:{port}", s3_region="us-east-1")
    )
    ends = []
    runtime = RLRuntime(tiny(), settings, sinks=[lambda event: ends.append(time.monotonic())])
    result = runtime.train()
    waited = time.monotonic() - ends[-1]
    assert result.status == "completed"
    (notice,) = result.notices
    assert notice.startswith("tracking: ")
    assert f"rl store sync {result.run_id}" in notice
    found = standing(journal_folder(settings), result.run_id)
    assert found.waiting == len(list(operations(journal_path(journal_folder(settings), result.run_id))))
    assert found.problem in notice
    assert sum("not at" in record.message for record in caplog.records) == 1
    assert waited < 20, waited  # loading W&B's library is most of it


def test_a_tracker_that_never_answers_costs_the_seconds_of_the_setting(tracked):
    import socket

    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        settings = tracked("mlflow", f"http://127.0.0.1:{deaf.getsockname()[1]}", delivery_seconds=0.5)
        ends = []
        result = RLRuntime(tiny(), settings, sinks=[lambda event: ends.append(time.monotonic())]).train()
        assert time.monotonic() - ends[-1] < 2.5
    assert result.status == "completed"
    assert "records are not at mlflow" in result.notices[0]


def test_a_journal_that_cannot_be_written_costs_a_run_a_notice(settings):
    settings.home.mkdir()
    settings.tracking_path.write_text("in the way")
    result = RLRuntime(tiny(), settings).train()
    assert result.status == "completed"
    assert result.notices[0].startswith("tracking: the journal cannot be written")
    assert "Not a directory" in result.notices[0]


def test_a_courier_that_was_killed_is_replaced(tmp_path):
    folder = tmp_path / "tracking" / "journal"
    journal = Journal(folder, "run")
    destination = Destination("mlflow", "lab", f"http://127.0.0.1:{closed_port()}")
    journal.append("begin", name="x", destination=destination.as_data())
    courier = ProcessCourier(folder, {"run": None}, follows=True)
    courier._process.kill()
    courier._process.wait()
    courier.finish(30)
    assert "does not answer" in standing(folder, "run").problem


@pytest.mark.parametrize(
    ("store", "spec", "what"),
    [
        ({"backend": "s3"}, {}, "needs an address"),
        ({"backend": "mlflow", "tracking_uri": "gopher://x"}, {}, "no other scheme"),
        ({}, {"mlflow": {"tags": {"spec_hash": "mine"}}}, "sets spec_hash itself"),
        ({}, {"mlflow": {"register_model_as": "a/b"}}, "register_model_as"),
    ],
)
def test_wrong_settings_are_refused_and_leave_no_run(settings, ledger, store, spec, what):
    wrong = Settings(home=settings.home, store=store)
    with pytest.raises(TrackingError, match=what):
        RLRuntime(tiny(**spec), wrong).train()
    assert ledger.runs(limit=None) == []


def test_a_resumed_run_goes_on_in_the_same_tracker_run(settings, ledger):
    seen = []

    def halt(event):
        seen.append(event.stage)
        if seen.count("train.step") == 2 and event.stage == "train.step":
            ledger.engage("*", "enough", "tester")
            time.sleep(0.6)

    halted = RLRuntime(tiny(), settings, sinks=[halt]).train()
    assert halted.status == "halted"
    folder = folder_of(settings, halted.run_id)
    assert read(folder, "run")["status"] == "halted"
    assert "enough" in read(folder, "tags")["halt_reason"]
    before = points_of(folder)
    ledger.release("*", "go on", "tester")
    resumed = RLRuntime.from_run(halted.run_id, settings).resume()
    assert read(folder, "run")["status"] == resumed.status == "completed"
    assert read(folder, "tags")["halt_reason"] == ""
    after = points_of(folder)
    assert after[: len(before)] == before
    assert after[-1]["step"] == 512
    numbers = [point["n"] for point in after]
    assert numbers == sorted(set(numbers))
    assert [path.name for path in folder.parent.iterdir()] == [halted.run_id]


def test_a_run_is_not_resumed_at_another_tracker(settings, ledger):
    def trip(event):
        if event.stage == "train.checkpoint":
            raise RuntimeError("tripped")

    often = Settings(home=settings.home, store={"checkpoint_freq": 128})
    with pytest.raises(Exception, match="tripped"):
        RLRuntime(tiny(), often, sinks=[trip]).train()
    run = ledger.run("latest").id
    elsewhere = Settings(home=settings.home, store={"experiment_name": "other"})
    with pytest.raises(TrackingError, match="goes on there"):
        RLRuntime.from_run(run, elsewhere).resume()
    assert RLRuntime.from_run(run, settings).resume().status == "completed"


def test_a_sync_does_not_end_a_run_that_was_resumed_meanwhile(settings, monkeypatch):
    run = RLRuntime(tiny(agent={"class": "random"}), settings).train().run_id
    path = journal_path(journal_folder(settings), run)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))  # it was killed before its end
    content, true_run = path.read_bytes(), Ledger.run
    # The list of runs is older than the look at this one.
    with monkeypatch.context() as resumed:
        resumed.setattr(Ledger, "run", lambda self, ref: replace(true_run(self, ref), status="running"))
        assert call("store", "sync", "--json").code == 0
    assert path.read_bytes() == content
    assert call("store", "sync", "--json").code == 0
    numbers = [operation.number for operation, _ in operations(path)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert path.read_bytes().removeprefix(content).count(b'"op": "end"') == 1


def test_wandb_offline_has_the_run(tracked, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    settings = tracked("wandb", experiment_name="lab")
    result = RLRuntime(tiny(mlflow={"register_model_as": "tiny"}), settings).train()
    assert result.notices == []
    seen = telling.seen_in_wandb(settings.tracking_path, result.run_id)
    assert seen.status == "completed"
    assert seen.tags["spec_hash"] == result.spec_hash
    assert seen.params["agent.class"] == "ppo"
    assert seen.metrics["final/mean_reward"] == [(512, result.metrics["mean_reward"])]
    assert "checkpoints/last/state.safetensors" in seen.artefacts
    assert seen.models == [("tiny", "checkpoints/last")]


def test_an_upload_to_what_is_no_wandb_server_is_not_taken_for_one(tracked, monkeypatch, other_server):
    monkeypatch.setenv("WANDB_API_KEY", "x" * 40)
    settings = tracked("wandb", other_server)
    result = RLRuntime(tiny(), settings).train()
    assert "wandb sync failed" in result.notices[0]
    assert standing(journal_folder(settings), result.run_id).waiting > 0
    assert telling.seen_in_wandb(settings.tracking_path, result.run_id).status == "completed"


def test_a_bucket_has_the_run(tracked, bucket, s3_server):
    name, client = bucket
    settings = tracked("s3", f"s3://{name}", lake=LakeSettings(s3_endpoint=s3_server, s3_region="us-east-1"))
    result = RLRuntime(tiny(mlflow={"register_model_as": "tiny"}), settings).train()
    assert result.notices == []
    seen = telling.seen_in_bucket(client, name, f"rl-experiment/{result.run_id}")
    assert (seen.status, seen.tags["rl_run_id"]) == ("completed", result.run_id)
    assert seen.metrics["final/mean_reward"] == [(512, result.metrics["mean_reward"])]
    manifest = (Path(result.checkpoint) / "checkpoint.json").read_bytes()
    assert seen.artefacts["checkpoints/last/checkpoint.json"] == manifest
    assert seen.models == [("tiny", "checkpoints/last")]


def test_with_plain_files_nothing_of_a_vendor_is_imported(tmp_path):
    code = (
        "import sys; from alphaswarm_rl import RLRuntime; from tests.runtime.conftest import tiny;"
        "assert RLRuntime(tiny(agent={'class': 'random'})).train().status == 'completed';"
        "assert not {'mlflow', 'wandb', 'boto3'} & set(sys.modules)"
    )
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path.cwd()), os.environ["PYTHONPATH"]])}
    subprocess.run([sys.executable, "-c", code], check=True, env=environ)


def test_status_and_sync_on_the_command_line(tracked, tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "online")
    assert call("store", "status").out == "no run is tracked yet\n"
    port = closed_port()
    settings = tracked("wandb", f"http://127.0.0.1:{port}")
    run = RLRuntime(tiny(), settings).train().run_id
    (waiting,) = call("store", "status", "--json").json
    assert (waiting["run_id"], waiting["status"], waiting["backend"]) == (run, "completed", "wandb")
    assert waiting["waiting"] > 0
    assert f"http://127.0.0.1:{port} does not answer" in waiting["problem"]
    assert run in call("store", "status").out

    refused = call("store", "sync", run, "--json")
    assert refused.code == 1
    assert "does not answer" in refused.json["problems"][0]
    monkeypatch.setenv("WANDB_MODE", "offline")
    delivered = call("store", "sync", "--json")
    assert delivered.code == 0, delivered.err
    assert delivered.json == {"runs": [run], "delivered": waiting["waiting"], "problems": []}
    assert call("store", "sync", "--json").json["delivered"] == 0
    assert call("store", "status").out == "trackers have everything\n"
    with Ledger.open(settings) as ledger:
        row = ledger.run(run)
    assert row.notices == []
    assert row.mlflow_run_id is None
    assert call("store", "sync", "--to", "http://x").code == 2
    assert call("store", "status", "nosuchrun").code == 2

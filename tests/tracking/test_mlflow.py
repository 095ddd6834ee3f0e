"""Runs at a real MLflow server, which may be killed in the middle."""

import signal
import time
from pathlib import Path

import pytest

from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.runtime import RLRuntime
from alphaswarm_rl.spec import RLExperimentSpec
from alphaswarm_rl.tracking.journal import journal_path, operations
from alphaswarm_rl.tracking.listener import journal_folder
from alphaswarm_rl.tracking.waiting import standing
from tests.cli.calling import PPO, call, finished, start, wait_for_stage
from tests.runtime.conftest import tiny
from tests.test_worked_example import SPEC
from tests.tracking.telling import mlflow_runs, seen_in_mlflow


def journalled(settings, run):
    """The points that a run said, by name, as MLflow gives them back."""
    found = {}
    for operation, _ in operations(journal_path(journal_folder(settings), run)):
        if operation.kind == "metrics":
            for name, value in operation.data["metrics"].items():
                found.setdefault(name, []).append((operation.data["step"], value))
    return found


def in_order(metrics):
    return {name: sorted(points) for name, points in metrics.items()}


def test_the_worked_example_and_its_replay_are_at_the_server(tracked, client, mlflow_server, tmp_path):
    spec = RLExperimentSpec.from_yaml_str(SPEC + "mlflow: {register_model_as: worked-model, tags: {team: blue}}\n")
    settings = tracked("mlflow", mlflow_server.uri, experiment_name="worked example")
    trained = RLRuntime(spec, settings).train()
    replayed = RLRuntime.from_run(trained.run_id, settings).replay(seed=7)
    assert trained.notices == replayed.notices == []

    experiment = client.get_experiment_by_name("worked example")
    runs = {run.data.tags["rl_run_id"]: run for run in client.search_runs([experiment.experiment_id])}
    assert set(runs) == {trained.run_id, replayed.run_id}
    with Ledger.open(settings) as ledger:
        for result in (trained, replayed):
            run = runs[result.run_id]
            assert ledger.run(result.run_id).mlflow_run_id == run.info.run_id
            assert run.data.tags["spec_hash"] == result.spec_hash
            assert run.data.tags["team"] == "blue"
            assert run.info.status == "FINISHED"
            assert run.info.run_name.startswith("ppo-20")
            assert run.data.params["agent.kwargs.learning_rate"] == "0.0003"
            assert run.data.params["training.total_timesteps"] == "2048"
    assert runs[replayed.run_id].data.tags["parent_run_id"] == trained.run_id
    assert runs[replayed.run_id].data.metrics["replay/mean_reward"] == replayed.metrics["mean_reward"]

    seen = seen_in_mlflow(client, "worked example", trained.run_id, tmp_path / "down")
    assert in_order(seen.metrics) == in_order(journalled(settings, trained.run_id))
    assert seen.metrics["final/mean_reward"] == [(2048, trained.metrics["mean_reward"])]
    assert {"train/loss", "episode/reward", "validation/mean_reward", "evaluate/mean_reward"} <= set(seen.metrics)
    for name, path in (("last", trained.checkpoint), ("best", trained.best_checkpoint)):
        for file in ("checkpoint.json", "state.safetensors"):
            assert seen.artefacts[f"checkpoints/{name}/{file}"] == (Path(path) / file).read_bytes()
    assert RLExperimentSpec.from_yaml_str(seen.artefacts["spec.yaml"].decode()).spec_hash == trained.spec_hash
    # The registered model is the artefact that was uploaded before it.
    assert seen.models == [("worked-model", "checkpoints/best")]
    (version,) = client.search_model_versions("name = 'worked-model'")
    assert version.tags["rl_run_id"] == trained.run_id
    assert version.status == "READY"


def test_a_server_killed_in_the_middle_misses_nothing_after_a_sync(tracked, client, mlflow_server, tmp_path):
    settings = tracked("mlflow", mlflow_server.uri, experiment_name="killed", delivery_seconds=20)
    steps = []

    def kill(event):
        if event.stage == "train.step":
            steps.append(event)
        if event.stage == "train.step" and len(steps) == 4:
            folder, deadline = journal_folder(settings), time.monotonic() + 60
            while standing(folder, event.run_id).waiting:  # it has the first half
                assert time.monotonic() < deadline
                time.sleep(0.05)
            mlflow_server.stop()

    spec = tiny(training={"total_timesteps": 1024, "log_interval": 1}, mlflow={"register_model_as": "killed-model"})
    result = RLRuntime(spec, settings, sinks=[kill]).train()
    assert result.status == "completed"
    assert f"records are not at mlflow at {mlflow_server.uri}: " in result.notices[0]
    left = standing(journal_folder(settings), result.run_id).waiting
    assert 0 < left < len(list(operations(journal_path(journal_folder(settings), result.run_id))))
    assert call("store", "sync", "--json").code == 1

    mlflow_server.start()
    synced = call("store", "sync", "--json")
    assert (synced.code, synced.json["delivered"]) == (0, left), synced.err
    seen = seen_in_mlflow(client, "killed", result.run_id, tmp_path / "down")
    assert in_order(seen.metrics) == in_order(journalled(settings, result.run_id))
    assert [step for step, _ in seen.metrics["steps_per_second"]] == [event.payload["timesteps"] for event in steps]
    assert (seen.status, len(steps)) == ("completed", 8)
    assert seen.models == [("killed-model", "checkpoints/last")]
    with Ledger.open(settings) as ledger:
        row = ledger.run(result.run_id)
    assert row.notices == []
    (run,) = mlflow_runs(client, "killed", row.id)
    assert row.mlflow_run_id == run.info.run_id


@pytest.fixture
def killed(tracked, mlflow_server, tmp_path):
    """A run whose process was killed, and the spec it runs."""
    spec = tmp_path / "long.yaml"
    spec.write_text(PPO.replace("256", "12000").replace("n_envs: 2", "n_envs: 2, log_interval: 4"))
    settings = tracked("mlflow", mlflow_server.uri, experiment_name="killed run", checkpoint_freq=640)
    flags = ("--backend", "mlflow", "--tracking-uri", mlflow_server.uri, "--experiment-name", "killed run")
    process = start("train", spec, "--checkpoint-freq", 640, *flags)
    run = wait_for_stage(settings.home, "train.checkpoint", process)
    process.kill()
    finished(process)
    assert process.returncode == -signal.SIGKILL
    return run, settings


def test_a_killed_run_that_goes_on_is_one_run_with_its_whole_history(killed, client, tmp_path):
    run, settings = killed
    assert call("store", "sync", "--json").code == 0
    (first,) = mlflow_runs(client, "killed run", run)
    assert first.info.status == "KILLED"
    # Without a flag: it goes on where it is tracked.
    resumed = call("resume", run, "--checkpoint-freq", "640", "--delivery-seconds", "60", "--json")
    assert resumed.code == 0, resumed.err
    assert not [notice for notice in resumed.json["notices"] if notice.startswith("tracking")]
    assert call("store", "sync", "--json").json["delivered"] == 0
    (again,) = mlflow_runs(client, "killed run", run)
    assert again.info.run_id == first.info.run_id
    seen = seen_in_mlflow(client, "killed run", run, tmp_path / "down")
    assert seen.status == "completed"
    assert in_order(seen.metrics) == in_order(journalled(settings, run))
    steps = [step for step, _ in seen.metrics["steps_per_second"]]
    assert set(range(512, 12000, 512)) <= set(steps)


def test_a_journal_can_be_delivered_to_another_address(tracked, client, mlflow_server, tmp_path):
    settings = tracked("mlflow", "http://127.0.0.1:9", experiment_name="moved")
    run = RLRuntime(tiny(agent={"class": "random"}), settings).train().run_id
    moved = call("store", "sync", run, "--to", mlflow_server.uri, "--json")
    assert moved.code == 0, moved.out
    seen = seen_in_mlflow(client, "moved", run, tmp_path / "down")
    assert (seen.status, in_order(seen.metrics)) == ("completed", in_order(journalled(settings, run)))
    assert call("store", "sync", run, "--to", "gopher://x").code == 2

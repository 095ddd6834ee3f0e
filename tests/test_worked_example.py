"""The worked example, from the command line: train, train again, change one thing, replay."""

import json
import subprocess
import sys

import pytest

from tests.lake import killing

SPEC = """
name: Worked example
env: {class: gymnasium, kwargs: {id: CartPole-v1}}
agent: {class: ppo, kwargs: {n_steps: 64, batch_size: 64, n_epochs: 2, learning_rate: 3e-4}}
training: {total_timesteps: 2048, n_envs: 4, log_interval: 2, eval_during_training: true, eval_freq: 1024}
evaluation: {episodes: 4}
"""


@pytest.fixture
def rl(tmp_path):
    """The command in a process of its own, with --json."""
    (tmp_path / "spec.yaml").write_text(SPEC)

    def call(verb, *arguments):
        spec = [tmp_path / word if word == "spec.yaml" else word for word in arguments]
        answer = killing.rl(verb, *spec, "--json", home=tmp_path / "home")
        assert answer.code == 0, answer.err
        return answer.json

    return call


def test_the_worked_example(rl):
    first = rl("train", "spec.yaml")
    again = rl("train", "spec.yaml")
    assert again["run_id"] != first["run_id"]
    assert again["version_id"] == first["version_id"]
    assert again["metrics"] == first["metrics"]
    assert again["checkpoint_sha256"] == first["checkpoint_sha256"]

    changed = rl("train", "spec.yaml", "--learning-rate", "1e-3")
    assert changed["version_id"] != first["version_id"]
    assert changed["spec_hash"] != first["spec_hash"]
    versions = rl("specs", "versions", "worked-example")
    assert sorted(version["version"] for version in versions) == [1, 2]

    replayed = rl("replay", first["run_id"], "--seed", "7")
    assert replayed["parent_run_id"] == first["run_id"]
    assert replayed["version_id"] == first["version_id"]
    assert replayed["checkpoint_sha256"] == first["checkpoint_sha256"]
    runs = rl("runs", "list")
    of_first_version = [run for run in runs if run["version_id"] == first["version_id"]]
    assert sorted(run["target"] for run in of_first_version) == ["replay", "train", "train"]

    # Train and replay of one version, under the name that the version's hash gives them.
    table = f'alphaswarm_silver_rl_trajectories."{first["spec_hash"]}"'
    found = rl("sql", f"SELECT run_id, phase, count(*), sum(reward) FROM {table} GROUP BY ALL")
    steps = {(run_id, phase): (count, reward) for run_id, phase, count, reward in found["rows"]}
    assert steps.keys() >= {(first["run_id"], "train"), (again["run_id"], "train"), (replayed["run_id"], "replay")}
    assert steps[first["run_id"], "train"] == (2048, 2048.0)
    assert steps[replayed["run_id"], "replay"][1] == replayed["metrics"]["total_reward"]
    assert not any(run_id == changed["run_id"] for run_id, _ in steps)

    events = rl("runs", "events", first["run_id"])
    stages = [event["stage"] for event in events]
    assert stages[:4] == ["start", "data.loaded", "env.built", "agent.built"]
    assert stages[-2:] == ["train.checkpoint", "done"]
    assert set(stages[4:-1]) == {"train.step", "train.checkpoint", "eval.step", "model.validated"}
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))

    shown = rl("runs", "show", first["run_id"])
    run = shown.get("run", shown)
    assert run["halt_checks"] >= 2048 // 4
    assert run["halt_reason"] is None


def test_a_failing_run_ends_in_error(tmp_path):
    (tmp_path / "spec.yaml").write_text(SPEC.replace("id: CartPole-v1", "id: CartPole-v1, kwargs: {nothing: 1}"))

    def call(*arguments):
        command = [sys.executable, "-m", "alphaswarm_rl.cli", *arguments, "--json"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    failed = call("train", "spec.yaml")
    assert failed.returncode != 0
    run_id = json.loads(failed.stdout)["error"]["run_id"]
    events = json.loads(call("runs", "events", run_id).stdout)
    assert events[-1]["stage"] == "error"
    assert "Traceback" not in failed.stderr

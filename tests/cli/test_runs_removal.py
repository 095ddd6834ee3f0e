"""`rl runs rm` and `rl runs gc`."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from alphaswarm_rl.cli import runs as command
from alphaswarm_rl.models import ModelRegistry
from alphaswarm_rl.settings import Settings
from tests.models.samples import evaluation


def test_rm_removes_files_and_keeps_the_row(rl, trained, home):
    answer = rl("runs", "rm", trained["run_id"], "--yes", "--json").json
    assert answer["freed_bytes"] > 0
    assert not Path(trained["checkpoint"]).exists()
    assert not list((home / "logs").iterdir())
    assert rl("runs", "list", "--json").json == []
    assert [row["id"] for row in rl("runs", "list", "--removed", "--json").json] == [trained["run_id"]]
    assert rl("runs", "rm", trained["run_id"], "--yes").code == 2
    assert rl("replay", trained["run_id"]).code == 2
    assert rl("infer", "--run", trained["run_id"]).code == 2


def test_rm_says_what_would_go_and_asks_nothing(rl, trained):
    answer = rl("runs", "rm", trained["run_id"], "--dry-run")
    assert answer.code == 0
    assert answer.out.startswith(f"would remove run {trained['run_id']}, ")
    assert Path(trained["checkpoint"]).exists()
    answer = rl("runs", "rm", "--where", "agent = nobody", "--dry-run")
    assert "would remove 0 runs, keep 0; 0 B to free" in answer.out
    assert rl("runs", "rm", trained["run_id"], "--dry-run", "--now").code == 2


def test_rm_asks(rl, trained):
    answer = rl("runs", "rm", trained["run_id"])
    assert answer.code == 2
    assert "--yes" in answer.err
    assert Path(trained["checkpoint"]).exists()


@pytest.mark.parametrize(("word", "code", "stays"), [("n", 3, True), ("y", 0, False)])
def test_rm_asks_at_a_terminal(trained, word, code, stays):
    ours, theirs = os.openpty()
    os.write(ours, f"{word}\n".encode())
    command = [sys.executable, "-m", "alphaswarm_rl.cli", "runs", "rm", trained["run_id"]]
    done = subprocess.run(command, stdin=theirs, capture_output=True, text=True, check=False)
    os.close(theirs)
    os.close(ours)
    assert done.returncode == code, done.stderr
    assert "Remove the files of run" in done.stderr
    assert Path(trained["checkpoint"]).exists() is stays


def test_rm_keeps_what_others_stand_on(rl, trained):
    evaluated = rl("evaluate", trained["run_id"], "--json").json
    replayed = rl("replay", evaluated["run_id"], "--json").json
    answer = rl("runs", "rm", trained["run_id"], "--yes")
    assert answer.code == 2
    # The replay is a grandchild, and stands on the same checkpoint.
    assert evaluated["run_id"] in answer.err
    assert replayed["run_id"] in answer.err
    assert Path(trained["checkpoint"]).exists()
    assert rl("runs", "rm", trained["run_id"], "--yes", "--force").code == 0


def test_rm_of_an_evaluation_leaves_the_checkpoint(rl, trained):
    evaluated = rl("evaluate", trained["run_id"], "--json").json
    assert rl("runs", "rm", evaluated["run_id"], "--yes").code == 0
    assert Path(trained["checkpoint"]).exists()


def test_gc(rl, trained, home):
    models = home / "models"
    half = models / trained["run_id"] / ".unfinished-000000000999"
    unknown = models / str(uuid4()) / "000000000001"
    foreign = models / "thesis"
    foreign_too = models / str(uuid4()) / "notes"
    for folder in (half, unknown, foreign, foreign_too):
        folder.mkdir(parents=True)
        (folder / "data").write_bytes(b"x" * 100)
    planned = rl("runs", "gc", "--dry-run", "--json").json
    assert planned["bytes"] == 200
    assert half.exists()
    assert rl("runs", "gc").code == 2  # nobody can be asked
    asked = rl("runs", "rm", "--where", "status = completed", "--json").error
    assert asked["why"].endswith(f"nobody can be asked: Remove the files of 1 run: {trained['run_id']}?")
    assert asked["remedy"] == "Nothing was removed. Where the answer is yes, give --yes."
    done = rl("runs", "gc", "--yes", "--json").json
    assert [folder["path"] for folder in done["folders"]] == [folder["path"] for folder in planned["folders"]]
    assert not half.exists()
    assert not unknown.parent.exists()
    # Nothing that this program did not make, and nothing that a run needs.
    assert foreign.exists()
    assert foreign_too.exists()
    assert Path(trained["checkpoint"]).exists()
    assert rl("runs", "gc").out == "freed 0 B\n"


def test_gc_with_another_ledger_is_refused(rl, trained, home, tmp_path):
    answer = rl("runs", "gc", "--yes", "--db-url", f"sqlite:///{tmp_path}/other.db")
    assert answer.code == 2
    assert "the home adopted the ledger" in answer.err
    assert (home / "models" / trained["run_id"]).is_dir()


@pytest.fixture
def registry(home):
    with ModelRegistry.open(Settings(home=home)) as registry:
        yield registry


@pytest.fixture
def meanwhile(monkeypatch):
    """Lets something happen while the question waits for its answer."""

    def set_up(happens):
        monkeypatch.setattr(command, "confirm", lambda question, *, yes: happens())

    return set_up


def deploy(registry, model):
    registry.add_evaluation(model, evaluation())
    assert registry.validate(model).passed
    registry.promote(model, who="test", why="test")


def test_rm_refuses_what_was_deployed_while_it_asked(rl, trained, registry, meanwhile):
    (row,) = registry.list()
    meanwhile(lambda: deploy(registry, row.id))
    answer = rl("runs", "rm", trained["run_id"], "--json")
    assert (answer.code, answer.error["why"]) == (2, f"model {row.id} is in production")
    assert Path(trained["checkpoint"]).exists()
    assert registry.get(row.id).deployment_status == "production"
    assert [run["id"] for run in rl("runs", "list", "--json").json] == [trained["run_id"]]
    meanwhile(lambda: None)
    assert rl("runs", "rm", trained["run_id"], "--force").code == 0
    assert registry.get(row.id).archived


def test_rm_refuses_a_run_that_was_judged_while_it_asked(rl, trained, meanwhile):
    meanwhile(lambda: rl("evaluate", trained["run_id"]))
    answer = rl("runs", "rm", trained["run_id"])
    assert answer.code == 2
    assert "was judged by" in answer.err
    assert Path(trained["checkpoint"]).exists()


def test_rm_refuses_a_run_whose_model_is_what_a_rollback_returns_to_or_a_parent(rl, trained, ppo_spec, registry):
    second = rl("train", ppo_spec, "--seed", 5, "--json").json
    first_model, second_model = sorted(registry.list(), key=lambda row: row.id)
    deploy(registry, first_model.id)
    deploy(registry, second_model.id)
    answer = rl("runs", "rm", trained["run_id"], "--yes")
    assert (answer.code, "rollback" in answer.err) == (2, True)
    assert Path(trained["checkpoint"]).exists()
    assert rl("runs", "rm", second["run_id"], "--yes").code == 2


def test_a_dry_run_counts_a_parent_whose_child_goes_before_as_free(rl, trained, ppo_spec, registry):
    second = rl("train", ppo_spec, "--seed", 5, "--json").json
    parent, child = sorted(registry.list(), key=lambda row: row.id)
    metrics = json.dumps({"mean_reward": 1.0, "std_reward": 0.0, "mean_episode_length": 9.0, "total_timesteps": 256})
    assert rl("models", "add", second["checkpoint"], metrics, "--parent", parent.id).code == 0
    assert registry.get(child.id).parent_model_id == parent.id
    alone = rl("runs", "rm", trained["run_id"], "--dry-run")
    assert (alone.code, "is the parent of model" in alone.err) == (2, True)
    both = ("runs", "rm", trained["run_id"], second["run_id"])
    planned, done = rl(*both, "--dry-run", "--json").json, rl(*both, "--yes", "--json").json
    ids = [[run["run_id"] for run in answer["removed"]] for answer in (planned, done)]
    assert ids[0] == ids[1] == [second["run_id"], trained["run_id"]]


def test_gc_refuses_what_was_deployed_while_it_asked(rl, trained, home, registry, meanwhile):
    (row,) = registry.list()
    folder = home / "models" / str(uuid4()) / Path(trained["checkpoint"]).name
    shutil.copytree(trained["checkpoint"], folder)
    metrics = {"mean_reward": 9, "std_reward": 1, "episodes": 12, "mean_episode_length": 9, "total_timesteps": 256}
    added = rl("models", "add", folder, json.dumps(metrics), "--parent", row.id, "--json").json
    assert added["parent_model_id"] == row.id
    meanwhile(lambda: registry.protect(added["id"], True, who="test", why="test"))
    answer = rl("runs", "gc")
    assert answer.code == 2
    assert "Nothing was removed" in answer.err
    assert folder.exists()
    assert not registry.get(added["id"]).archived


def test_gc_leaves_what_a_resumed_run_writes_while_it_asks(rl, trained, home, meanwhile):
    half = home / "models" / trained["run_id"] / ".unfinished-000000000999"
    half.mkdir()

    def resume():
        with sqlite3.connect(next(home.glob("*ledger*.db"))) as connection:
            connection.execute("UPDATE rl_runs SET status = 'running'")

    meanwhile(resume)
    assert rl("runs", "gc").code == 2
    assert half.exists()


def test_a_home_behind_a_link(rl, ppo_spec, tmp_path, monkeypatch):
    """What the registry holds and what a run is judged by are found whichever way leads there."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    monkeypatch.setenv("ALPHASWARM_RL_HOME", str(tmp_path / "link"))
    trained = rl("train", ppo_spec, "--json").json
    (row,) = rl("models", "list", "--json").json
    assert Path(row["model_path"]).is_relative_to(tmp_path / "disk")
    judged = rl("evaluate", "--model-id", row["id"], "--episodes", 12, "--json").json
    assert judged["validated"]
    answer = rl("runs", "rm", trained["run_id"], "--yes")
    assert (answer.code, judged["run_id"] in answer.err) == (2, True)
    assert rl("models", "promote", row["id"], "--reason", "test").code == 0
    assert rl("runs", "rm", judged["run_id"], "--yes").code == 0
    answer = rl("runs", "rm", trained["run_id"], "--yes")
    assert (answer.code, "in production" in answer.err) == (2, True)
    assert Path(trained["checkpoint"]).exists()

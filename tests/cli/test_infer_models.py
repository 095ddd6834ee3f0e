"""Models of the registry on the command line: from training to serving, and what becomes of them."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from queue import Empty, Queue
from uuid import uuid4

import pytest

from alphaswarm_rl import cli
from alphaswarm_rl.models.registry import ModelRegistry
from alphaswarm_rl.settings import Settings

from .calling import start

ZERO = "[0, 0, 0, 0]\n"
METRICS = {"mean_reward": 9.0, "std_reward": 1.0, "episodes": 12, "mean_episode_length": 9.0, "total_timesteps": 256}

LEARNS = """\
name: learns
env: {class: cartpole}
agent: {class: ppo, kwargs: {n_steps: 64, batch_size: 64, n_epochs: 8, learning_rate: 0.003, net_arch: [32]}}
training: {total_timesteps: 4096, n_envs: 4, seed: 1}
evaluation: {episodes: 0}
"""


def lines(answer):
    return [json.loads(line) for line in answer.out.splitlines()]


@pytest.fixture
def registry(home):
    with ModelRegistry.open(Settings(home=home)) as opened:
        yield opened


@pytest.fixture
def model(rl, trained):
    """The id of a model that passed."""
    (row,) = rl("models", "list", "--json").json
    assert rl("evaluate", "--model-id", row["id"], "--episodes", 12).code == 0
    return row["id"]


class Asking:
    """A process of `rl infer` that is asked line by line."""

    def __init__(self, *arguments):
        self.process = start("infer", *arguments)
        self.answers = Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.answers.put(json.loads(line))

    def __call__(self, observation="[0.01, 0.02, 0.03, 0.04]", timeout=60):
        self.process.stdin.write(observation + "\n")
        self.process.stdin.flush()
        try:
            return self.answers.get(timeout=timeout)
        except Empty:
            raise AssertionError(self.process.stderr.read()) from None

    def end(self):
        self.process.stdin.close()
        self.process.wait(timeout=30)
        return self.process.returncode, self.process.stderr.read()


# -- the whole way -------------------------------------------------------------------------------------------------


def test_from_training_to_serving_and_to_a_better_model(rl, tmp_path):
    spec = tmp_path / "learns.yaml"
    spec.write_text(LEARNS)
    # Rows appear, and are not validated.
    trained = rl("train", spec, "--checkpoint-freq", 1024, "--keep-last", 9, "--json").json
    rows = {row["total_timesteps"]: row for row in rl("models", "list", "--json").json}
    assert sorted(rows) == [1024, 2048, 3072, 4096]
    assert not any(row["validated"] for row in rows.values())
    assert rl("infer", "--load-best", stdin=ZERO).code == 2
    # An evaluation fills one, and the gates decide.
    early, late = rows[1024]["id"], rows[4096]["id"]
    judged = rl("evaluate", "--model-id", early, "--episodes", 12, "--json").json
    assert (judged["model_id"], judged["validated"], judged["parent_run_id"]) == (early, True, trained["run_id"])
    # The best is served.
    ask = Asking("--load-best", "--watch")
    first = ask()
    assert (first["model_id"], first["checkpoint_sha256"]) == (early, rows[1024]["sha256"])
    # A better one appears, made by another process than the one that answers meanwhile.
    seen, stop = [], threading.Event()

    def go_on_asking():
        while not stop.is_set():
            seen.append(ask()["model_id"])
            time.sleep(0.01)

    asking = threading.Thread(target=go_on_asking)
    asking.start()
    better = rl("evaluate", "--model-id", late, "--episodes", 12, "--json").json
    validated = time.monotonic()
    assert better["metrics"]["mean_reward"] > judged["metrics"]["mean_reward"]
    while late not in seen:
        assert time.monotonic() < validated + 2
        time.sleep(0.01)
    stop.set()
    asking.join()
    assert set(seen) == {early, late}
    assert ask()["checkpoint_sha256"] == rows[4096]["sha256"]
    code, err = ask.end()
    assert code == 0
    assert f"model {late} answers from now on, instead of model {early}" in err


# -- rl infer ------------------------------------------------------------------------------------------------------


def test_answers_carry_the_model(rl, trained, model):
    for arguments in (["--load-best"], ["--model-id", model]):
        (answer,) = lines(rl("infer", *arguments, stdin=ZERO))
        assert answer["action"] in (0, 1)
        assert (answer["model_id"], answer["checkpoint_sha256"]) == (model, trained["checkpoint_sha256"])


def test_an_alias_answers(rl, trained, model):
    assert rl("models", "promote", model, "--reason", "test").code == 0
    (answer,) = lines(rl("infer", "--alias", "champion", stdin=ZERO))
    assert answer["model_id"] == model
    unknown = rl("infer", "--alias", "champoin", stdin=ZERO)
    assert unknown.code == 2
    assert "champion" in unknown.err


def test_an_unvalidated_model_must_be_asked_for(rl, trained):
    (row,) = rl("models", "list", "--json").json
    refused = rl("infer", "--model-id", row["id"], stdin=ZERO)
    assert refused.code == 2
    assert "--unvalidated" in refused.err
    (answer,) = lines(rl("infer", "--model-id", row["id"], "--unvalidated", stdin=ZERO))
    assert answer["model_id"] == row["id"]


def test_a_batch_on_one_line(rl, model):
    (answer,) = lines(rl("infer", "--load-best", stdin="[[0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 1, 1]]\n"))
    assert len(answer["action"]) == 3
    bad = rl("infer", "--load-best", stdin=ZERO + "[[0, 0, 0]]\n")
    assert bad.code == 2
    assert "line 2" in bad.err


def test_episodes_of_the_best_model(rl, model):
    answers = lines(rl("infer", "--load-best", "--episodes", 3))
    returns = [sum(answer["reward"] for answer in answers if answer["episode"] == episode) for episode in range(3)]
    evaluated = rl("evaluate", "--model-id", model, "--episodes", 3, "--json").json
    assert sum(returns) / 3 == evaluated["metrics"]["mean_reward"]
    assert {answer["model_id"] for answer in answers} == {model}


def test_models_of_two_scopes_are_not_compared(rl, trained, model, tmp_path):
    other = tmp_path / "other.yaml"
    other.write_text(
        "name: other\nenv: {class: gymnasium, kwargs: {id: CartPole-v1}}\n"
        "agent: {class: ppo, kwargs: {n_steps: 32, batch_size: 64, n_epochs: 1}}\n"
        "training: {total_timesteps: 256, n_envs: 2}\nevaluation: {episodes: 12}\n"
    )
    assert rl("train", other).code == 0
    refused = rl("infer", "--load-best", stdin=ZERO)
    assert refused.code == 2
    assert "2 scopes" in refused.err
    (answer,) = lines(rl("infer", "--load-best", "--env", "cartpole", stdin=ZERO))
    assert answer["model_id"] == model
    row = rl("models", "show", model, "--json").json
    scope = row.get("scope") or row["model"]["scope"]
    (answer,) = lines(rl("infer", "--load-best", "--scope", scope, stdin=ZERO))
    assert answer["model_id"] == model
    assert rl("infer", "--load-best", "--scope", "ffffffffffff", stdin=ZERO).code == 2


def test_a_registry_of_another_name(rl, ppo_spec, home):
    trained = rl("train", ppo_spec, "--registry-db", "other.db", "--min-episodes", 3, "--json").json
    assert (home / "other.db").exists()
    assert rl("infer", "--load-best", stdin=ZERO).code == 2
    (answer,) = lines(rl("infer", "--load-best", "--registry-db", "other.db", stdin=ZERO))
    assert answer["checkpoint_sha256"] == trained["checkpoint_sha256"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--load-best", "--run", "latest"],
        ["--load-best", "--model-id", 1],
        ["--alias", "a", "--model-path", "somewhere"],
        ["--watch"],
        ["--model-id", 1, "--watch"],
        ["--unvalidated"],
        ["--load-best", "--unvalidated"],
        ["--scope", "abcd"],
        ["--load-best", "--watch", "--episodes", 1],
        ["--model-id", 1, "--env", "cartpole", "--episodes", 1],
        ["--model-id", 999],
    ],
)
def test_options_that_do_not_go_together_are_refused(rl, arguments):
    assert rl("infer", *arguments, stdin=ZERO).code == 2


def test_a_tampered_model_is_not_served(rl, trained, model):
    file = Path(trained["checkpoint"]) / "state.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"!")
    for command in (
        ["infer", "--load-best"],
        ["infer", "--model-id", model],
        ["models", "load", model],
        ["evaluate", "--model-id", model],
    ):
        answer = rl(*command, stdin=ZERO)
        assert answer.code != 0, command
        assert "changed" in answer.err


# -- rl evaluate --model-id ----------------------------------------------------------------------------------------


def test_a_model_is_judged_and_its_gates_run_again(rl, trained):
    (row,) = rl("models", "list", "--json").json
    assert not row["validated"]  # three episodes
    answer = rl("evaluate", "--model-id", row["id"], "--episodes", 12, "--json").json
    assert (answer["target"], answer["parent_run_id"]) == ("evaluate", trained["run_id"])
    assert (answer["model_id"], answer["validated"], answer["gates_failed"]) == (row["id"], True, {})
    again = rl("evaluate", "--model-id", row["id"], "--episodes", 2, "--json").json
    assert list(again["gates_failed"]) == ["min_episodes"]
    (row,) = rl("models", "list", "--json").json
    assert (row["validated"], row["eval_episodes"]) == (False, 2)


def test_what_cannot_be_judged_is_explained(rl, trained):
    assert rl("evaluate", "--model-id", 999).code == 2
    assert rl("evaluate").code == 2
    assert rl("evaluate", trained["run_id"], "--model-id", 1).code == 2
    assert rl("evaluate", "--model-id", 1, "--checkpoint", "best").code == 2
    assert rl("evaluate", "--model-id", 1, "--no-registry").code == 2


# -- rl models add, load -------------------------------------------------------------------------------------------


def test_a_folder_is_added_with_metrics_of_a_file_or_inline(rl, trained, tmp_path):
    folder = tmp_path / "brought"
    shutil.copytree(trained["checkpoint"], folder)
    inline = rl("models", "add", folder, json.dumps(METRICS), "--tag", "brought", "--json").json
    assert (inline["model_path"], inline["tags"], inline["validated"]) == (str(folder), ["brought"], False)
    file = tmp_path / "metrics.json"
    file.write_text(json.dumps({**METRICS, "mean_reward": 10.0}))
    again = rl("models", "add", folder, file, "--json").json
    assert (again["id"], again["mean_reward"]) == (inline["id"], 10.0)
    assert rl("models", "validate", inline["id"]).code == 0
    loaded = rl("models", "load", inline["id"], "--json").json
    assert (loaded["algorithm"], loaded["env_id"], loaded["sha256"]) == ("ppo", "cartpole", inline["sha256"])
    assert loaded["sample_action"] in (0, 1)
    assert loaded["action_space"] == "Discrete(2)"


def test_a_zip_is_added_under_its_spec(rl, ppo_spec, tmp_path):
    from stable_baselines3 import PPO

    path = tmp_path / "theirs.zip"
    PPO("MlpPolicy", "CartPole-v1", device="cpu").save(path)
    assert rl("models", "add", path, json.dumps(METRICS)).code == 2
    added = rl("models", "add", path, json.dumps(METRICS), "--spec", ppo_spec, "--json").json
    assert rl("models", "load", added["id"]).code == 2  # not validated
    assert rl("models", "load", added["id"], "--unvalidated").code == 0
    # It has no run, and is judged under the spec of its checkpoint.
    judged = rl("evaluate", "--model-id", added["id"], "--episodes", 10, "--json").json
    assert (judged["parent_run_id"], judged["validated"]) == (None, True)


@pytest.mark.parametrize(
    ("metrics", "why"),
    [
        ("{", "no JSON"),
        ("nowhere.json", "cannot be read"),
        (json.dumps({**METRICS, "mean": 1}), "unknown key"),
        (json.dumps({"mean_reward": 1}), "std_reward"),
        (json.dumps({**METRICS, "mean_reward": "x"}), "mean_reward"),
    ],
)
def test_wrong_metrics_are_explained(rl, trained, metrics, why):
    answer = rl("models", "add", trained["checkpoint"], metrics)
    assert answer.code == 2
    assert why in answer.err


# -- rl runs rm, gc ------------------------------------------------------------------------------------------------


def test_a_run_whose_model_is_deployed_is_not_removed(rl, trained, model, registry):
    rl("runs", "rm", rl("runs", "list", "--json").json[0]["id"], "--yes")  # the evaluation, which stands on it
    assert rl("models", "promote", model, "--reason", "test").code == 0
    refused = rl("runs", "rm", trained["run_id"], "--yes")
    assert refused.code == 2
    assert f"model {model}" in refused.err
    assert Path(trained["checkpoint"]).exists()
    assert rl("runs", "rm", trained["run_id"], "--yes", "--force").code == 0
    row = registry.get(model)
    assert (row.deployment_status, row.archived_because) == ("archived", "its run was removed")


def test_the_models_of_a_removed_run_are_archived(rl, trained, registry):
    assert rl("runs", "rm", trained["run_id"], "--yes").code == 0
    assert registry.list() == []
    (row,) = registry.list(archived=True)
    assert row.archived_because == "its run was removed"


def test_gc_leaves_models_that_somebody_counts_on(rl, trained, home, registry):
    (row,) = registry.list()
    folders = [home / "models" / str(uuid4()) / Path(trained["checkpoint"]).name for _ in range(2)]
    for folder in folders:  # of runs that the ledger does not know
        shutil.copytree(trained["checkpoint"], folder)
    kept, gone = (rl("models", "add", folder, json.dumps(METRICS), "--json").json["id"] for folder in folders)
    registry.protect(kept, True, who="test", why="test")
    assert rl("runs", "gc", "--yes").code == 0
    assert [folder.exists() for folder in folders] == [True, False]
    assert registry.get(gone).archived
    assert not registry.get(kept).archived
    assert not registry.get(row.id).archived


# -- other names ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (cli.load_best_main, ("infer", "--load-best")),
        (cli.registry_list_main, ("models", "list")),
        (cli.registry_add_main, ("models", "add")),
        (cli.registry_validate_main, ("models", "validate")),
        (cli.registry_load_main, ("models", "load")),
    ],
)
def test_other_names_are_the_same_commands(monkeypatch, function, words):
    called = []
    # The process of the tests keeps its signals and its garbage collector.
    monkeypatch.setattr(cli.signal, "signal", lambda *_: None)
    monkeypatch.setattr(cli.gc, "disable", lambda: None)
    monkeypatch.setattr(cli.rl, "main", lambda arguments, **_: called.append(tuple(arguments)))
    monkeypatch.setattr(sys, "argv", ["another name", "--json"])
    with pytest.raises(SystemExit):
        function()
    assert called == [(*words, "--json")]


def test_a_name_of_its_own_takes_options(trained):
    code = "from alphaswarm_rl.cli import registry_list_main; registry_list_main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "--json"], capture_output=True, text=True, check=True, env=os.environ
    )
    assert len(json.loads(done.stdout)) == 1

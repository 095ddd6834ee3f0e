"""`rl train`."""

import io
import json
import sqlite3

import pytest

from alphaswarm_rl.cli.results import give_run
from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.runtime import RunResult
from tests.lake import killing

from .calling import finished, start

FIELDS = {"run_id", "parent_run_id", "version_id", "spec_hash", "exec_hash", "status", "metrics", "checkpoint"}


def test_it_trains_and_shows_a_table(rl, random_spec):
    answer = rl("train", random_spec, "--n-envs", 3)
    assert answer.code == 0
    assert "spec_hash" in answer.out
    assert "training.n_envs = 3  (flag --n-envs)" in answer.out
    assert "completed" in answer.out
    assert "mean_reward" in answer.out


def test_json_is_alone_on_stdout(random_spec, home):
    answer = finished(start("train", random_spec, "--json", "--log-level", "debug"))
    assert answer.code == 0, answer.err
    assert set(answer.json) >= FIELDS
    assert answer.json["status"] == "completed"
    assert answer.json["checkpoint"].startswith(str(home))
    assert "spec_hash" in answer.err


def test_without_a_terminal_lines_on_stderr_say_where_the_training_is(rl, random_spec, monkeypatch):
    monkeypatch.setattr("alphaswarm_rl.runtime.progress._SECONDS_BETWEEN_LINES", 0.0)
    answer = rl("train", random_spec, "--json")
    assert answer.json["status"] == "completed"
    lines = [line for line in answer.err.splitlines() if "per second" in line]
    assert len(lines) > 1
    assert f"INFO run {answer.json['run_id'][:8]}: " in lines[-1]
    quiet = rl("train", random_spec, "--log-level", "warn")
    assert "per second" not in quiet.out + quiet.err


def test_the_same_spec_is_the_same_version(rl, ppo_spec, trained):
    again = rl("train", ppo_spec, "--json").json
    assert again["version_id"] == trained["version_id"]
    assert again["metrics"] == trained["metrics"]
    other = rl("train", ppo_spec, "--learning-rate", "1e-3", "--json").json
    assert other["version_id"] != trained["version_id"]
    assert other["overrides"] == {"agent.kwargs.learning_rate": {"value": 0.001, "source": "flag --learning-rate"}}
    assert len(rl("specs", "versions", "tiny-ppo", "--json").json) == 2


def test_initial_weights_of_another_agent_are_wrong_input(rl, trained):
    words = ("train", "cartpole_ppo", "--algorithm", "a2c_inhouse", "--init-from", trained["run_id"])
    for more in ((), ("--dry-run",)):
        answer = rl(*words, *more, "--json")
        assert answer.code == 2
        assert answer.error["why"] == "it is of the agent 'ppo', and this spec's is 'a2c_inhouse'"
        assert answer.error["remedy"] == "Begin with a checkpoint of the same agent, or leave it out."
    assert len(rl("runs", "list", "--json").json) == 1


def test_a_random_seed_is_the_runs_alone(rl, random_spec):
    first = rl("train", random_spec, "--json").json
    second = rl("train", random_spec, "--seed", "random", "--json").json
    assert second["seed"] != first["seed"]
    assert second["spec_hash"] == first["spec_hash"]
    third = rl("train", random_spec, "--seed", 5, "--json").json
    assert third["seed"] == 5
    assert third["spec_hash"] != first["spec_hash"]


def test_variables_change_the_spec(rl, random_spec, monkeypatch):
    monkeypatch.setenv("RL_ENV_N_ENVS", "4")
    assert rl("train", random_spec, "--json").json["overrides"] == {
        "training.n_envs": {"value": 4, "source": "ENV RL_ENV_N_ENVS"}
    }


def test_without_a_spec_the_options_are_trained(rl):
    answer = rl(
        "train", "--total-timesteps", 64, "--env-id", "cartpole", "--algorithm", "random", "--episodes", 1, "--json"
    )
    assert answer.code == 0, answer.out
    assert answer.json["timesteps"] == 64


def test_home_is_where_everything_goes(rl, random_spec, tmp_path, home):
    elsewhere = tmp_path / "elsewhere"
    answer = rl("train", random_spec, "--home", elsewhere, "--json")
    assert answer.json["checkpoint"].startswith(str(elsewhere))
    assert not home.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--n-envs", "many"), "an integer"),
        (("--n-envs", "0"), "greater than or equal to 1"),
        (("--seed", "soon"), "random"),
        (("--algorithm", "ppoo"), "'ppo'"),
        (("--learning-rate", "1"), "--learning-rate"),
        (("--device", "abacus"), "cuda"),
    ],
)
def test_wrong_options(rl, random_spec, arguments, words):
    answer = rl("train", random_spec, *arguments)
    assert answer.code == 2
    assert words in answer.err


def test_a_broken_spec(rl, tmp_path):
    path = tmp_path / "broken.yaml"
    path.write_text("name: x\nenv: {class: cartpol}\nagent: {class: random}\n")
    answer = rl("train", path, "--json")
    assert answer.code == 2
    assert "cartpole" in answer.error["why"]


def test_the_event_log_is_gapless(rl, trained):
    events = rl("runs", "events", trained["run_id"], "--json").json
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert [event["stage"] for event in events][:4] == ["start", "data.loaded", "env.built", "agent.built"]
    assert events[-1]["stage"] == "done"
    assert json.dumps(events)


@pytest.mark.parametrize(("level", "seen"), [("error", set()), ("info", {"done"}), ("debug", {"done", "env.built"})])
def test_the_log_level_says_which_lines_are_written(random_spec, home, level, seen):
    answer = killing.rl("train", random_spec, "--json", "--log-level", level, home=home)
    for stage in ("done", "env.built"):
        assert (f": {stage} (" in answer.err) == (stage in seen)


def test_the_text_says_which_model_was_judged(rl, ppo_spec):
    assert _judged(rl("train", ppo_spec).out) == "last checkpoint"
    assert rl("runs", "events", "latest", "--json").json[-1]["payload"]["judged"] == "last checkpoint"


def test_the_text_says_how_to_judge_the_best_model(rl, trained, tmp_path):
    out = io.StringIO()
    session = Session(out=out, flags={})
    for best in (trained["checkpoint"], str(tmp_path / "000000000128")):
        give_run(session, RunResult(**{**trained, "best_checkpoint": best}))
    last, other = out.getvalue().split("\nrun ")
    assert _judged(last) == "last checkpoint, the best by validation"
    run = trained["run_id"][:8]
    assert _judged(other) == f"last checkpoint; best by validation: step 128 (rl evaluate {run} --checkpoint best)"


def _judged(text):
    (line,) = [line for line in text.splitlines() if line.startswith("judged ")]
    return line.split(maxsplit=1)[1]


def test_resume_from_a_step(rl, ppo_spec, home):
    run = rl("train", ppo_spec, "--checkpoint-freq", 64, "--json").json["run_id"]
    with sqlite3.connect(home / "ledger.db") as connection:
        connection.execute("UPDATE rl_runs SET status = 'interrupted'")
    connection.close()
    refused = rl("resume", run, "--from", 7, "--json")
    assert refused.code == 2
    assert refused.error["remedy"] == "Kept: 128, 192, 256."
    assert rl("resume", run, "--from", -1).code == 2
    # A finished run's files are merged.
    merged = rl("resume", run, "--from", 128, "--json")
    assert merged.code == 1
    assert "merged into one file" in merged.error["why"]
    answer = rl("resume", run, "--from", 256)
    assert answer.code == 0
    assert "resumed at step 256" in answer.err

"""`rl tune`, and what is left of it after Ctrl-C and SIGKILL."""

import signal
import sys
import time

import pytest

from .calling import finished, start

DOCUMENT = """\
base:
  name: tiny tuned
  env: {class: cartpole}
  agent: {class: ppo, kwargs: {n_steps: 32, batch_size: 64, n_epochs: 1, net_arch: [8]}}
  training: {total_timesteps: 256, n_envs: 2, eval_during_training: true}
  evaluation: {episodes: 3}
space:
  agent.kwargs.learning_rate: {type: float, low: 1e-4, high: 1e-2, log: true}
  agent.kwargs.n_epochs: {type: int, low: 1, high: 3}
study: {trials: 3, startup_trials: 2}
"""
#: Long enough to be killed in the middle of its second run.
LONG = DOCUMENT.replace("total_timesteps: 256", "total_timesteps: 1500").replace(
    "trials: 3, startup_trials: 2", "trials: 2"
)


@pytest.fixture
def tuning(tmp_path):
    def write(text=DOCUMENT):
        path = tmp_path / "tuning.yaml"
        path.write_text(text)
        return path

    return write


def wait_for_runs(home, count, process, stage="train.step", timeout=120):
    """Waits until that many runs have reached a stage."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        logs = [log.read_text() for log in (home / "logs").glob("*.jsonl")]
        if sum(f'"stage": "{stage}"' in text for text in logs) >= count:
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    raise AssertionError(f"no {count} runs reached {stage}")


def made(document):
    return [(row["params"], row["value"]) for row in document["trials"] if row["state"] != "interrupted"]


def test_it_shows_the_best_trials_and_says_what_to_think_of_them(rl, tuning, tmp_path):
    best = tmp_path / "best.yaml"
    answer = rl("tune", tuning(), "--write", best)
    assert answer.code == 0, answer.err
    assert "TRIAL  validation.mean_reward  RUN" in answer.out
    assert "learning_rate" in answer.out
    assert "trial 2: " in answer.out
    assert "family tiny-tuned: 3 training runs of 3 different specs" in answer.out
    assert "biased upwards" in answer.out
    document = rl("tune", tuning(), "--json").json
    assert len(document["trials"]) == 3
    assert rl("spec", "hash", best, "--json").json == rl("spec", "hash", document["best"]["run_id"], "--json").json
    names = {row["name"] for row in rl("runs", "list", "--json").json}
    assert names == {f"tiny-tuned trial {number}" for number in range(3)}
    refused = rl("tune", tuning(), "--trials", 1, "--write", best)
    assert refused.code == 2
    assert "nothing is overwritten" in refused.err
    assert len(rl("tune", tuning(), "--trials", 1, "--json").json["trials"]) == 4


def test_a_study_without_one_completed_trial_is_no_success(rl, tuning):
    diverging = DOCUMENT.replace("class: ppo,", "class: ppo_inhouse,").replace("trials: 3,", "trials: 2,")
    answer = rl("tune", tuning(diverging.replace("low: 1e-4, high: 1e-2", "low: 1e29, high: 1e30")))
    assert answer.code == 1
    assert "2 failed" in answer.out


def test_a_dry_run_shows_the_space_and_one_spec_and_runs_nothing(rl, tuning, home):
    answer = rl("tune", tuning(), "--dry-run")
    assert answer.code == 0, answer.err
    assert "0.0001 to 0.01, log" in answer.out
    assert "name: tiny tuned" in answer.out
    document = rl("tune", tuning(), "--dry-run", "--json").json
    assert set(document["sample"]["params"]) == {"agent.kwargs.learning_rate", "agent.kwargs.n_epochs"}
    kwargs = document["sample"]["spec"]["agent"]["kwargs"]
    assert kwargs["learning_rate"] == document["sample"]["params"]["agent.kwargs.learning_rate"]
    assert not (home / "tuning").exists()
    assert not (home / "logs").exists()
    first = rl("tune", tuning(), "--trials", 1, "--json").json["trials"][0]
    assert first["params"] == document["sample"]["params"]


def test_a_dry_run_has_nothing_to_write(rl, tuning, tmp_path):
    refused = rl("tune", tuning(), "--dry-run", "--write", tmp_path / "best.yaml")
    assert refused.code == 2
    assert "--write needs a study" in refused.err


def test_flags_change_the_base_but_not_what_is_searched(rl, tuning):
    document = rl("tune", tuning(), "--gamma", 0.5, "--dry-run", "--json").json
    assert document["sample"]["spec"]["agent"]["kwargs"]["gamma"] == 0.5
    answer = rl("tune", tuning(), "--learning-rate", 0.01, "--dry-run")
    assert answer.code == 2
    assert "a flag or an environment variable sets 'agent.kwargs.learning_rate'" in answer.err
    assert rl("tune", tuning(), "--seed", "random", "--dry-run").code == 2


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("learning_rate", "learning_rat", ["has no 'learning_rat'", "Did you mean 'learning_rate'"]),
        ("high: 1e-2", "high: -1", ["must lie below high"]),
        ("low: 1, high: 3", "low: -1, high: 3", ["does not take -1", "n_epochs"]),
        ("agent.kwargs.n_epochs", "training.log_interval", ["changes nothing about what is computed"]),
        ("eval_during_training: true", "eval_during_training: false", ["makes no validations"]),
        ("class: ppo", "class: pppo", ["Did you mean 'ppo'"]),
        ("space:", "spaces:", ["unknown key 'spaces'"]),
    ],
)
def test_wrong_documents_are_refused_before_the_first_trial(rl, tuning, home, before, after, words):
    answer = rl("tune", tuning(DOCUMENT.replace(before, after)))
    assert answer.code == 2
    for word in ("error:", "why:", "remedy:", *words):
        assert word in answer.err
    assert not (home / "logs").exists()


def test_a_file_that_is_none_and_a_spec_are_refused(rl, tmp_path, ppo_spec):
    assert "does not exist" in rl("tune", tmp_path / "no.yaml").err
    answer = rl("tune", ppo_spec, "--json")
    assert answer.code == 2
    assert "it is a spec" in answer.error["why"]


def test_the_extra_is_named_where_it_is_missing(rl, tuning, monkeypatch):
    for name in [name for name in sys.modules if name == "optuna" or name.startswith("optuna.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "optuna", None)
    answer = rl("tune", tuning())
    assert answer.code == 2
    assert "pip install 'alphaswarm-rl[tune]'" in answer.err


def test_a_study_that_was_killed_goes_on_as_if_it_had_not_been(rl, tuning, home, tmp_path):
    process = start("tune", tuning(LONG))
    wait_for_runs(home, 2, process, stage="agent.built")
    process.send_signal(signal.SIGKILL)
    finished(process)
    answer = rl("tune", tuning(LONG), "--json")
    assert answer.code == 0, answer.out
    states = [row["state"] for row in answer.json["trials"]]
    assert states[1] == "interrupted"
    assert len(states) == 3
    assert states.count("interrupted") == 1
    runs = {row["id"]: row["status"] for row in rl("runs", "list", "--json").json}
    assert runs[answer.json["trials"][1]["run_id"]] == "interrupted"
    assert len(runs) == 3
    undisturbed = rl("tune", tuning(LONG), "--home", tmp_path / "elsewhere", "--json").json
    assert made(undisturbed) == made(answer.json)


def test_a_signal_halts_the_run_with_a_checkpoint_and_the_study_goes_on_later(rl, tuning, home):
    endless = DOCUMENT.replace("total_timesteps: 256", "total_timesteps: 1000000000, eval_freq: 100000000")
    process = start("tune", tuning(endless), "--checkpoint-freq", 640, "--json")
    wait_for_runs(home, 1, process, stage="train.checkpoint")
    process.send_signal(signal.SIGTERM)
    answer = finished(process)
    assert answer.code == 3, answer.err
    assert "SIGTERM" in answer.json["halted"]
    (trial,) = answer.json["trials"]
    assert trial["state"] == "interrupted"
    run = rl("runs", "show", trial["run_id"], "--json").json["run"]
    assert (run["status"], run["halt_reason"]) == ("halted", "signal SIGTERM")
    assert run["checkpoint"] is not None

"""What a mistake looks like: three lines or one JSON document, an exit code, and no traceback unless asked for."""

import os
import subprocess
import sys

import pytest

from alphaswarm_rl.operations import specs as spec_module


def test_an_error_names_thing_reason_and_remedy(rl):
    answer = rl("train", "missing.yaml")
    assert answer.code == 2
    assert answer.out == ""
    first, second, third = answer.err.splitlines()
    assert first == "error: file 'missing.yaml'"
    assert second == "  why: it does not exist"
    assert third.startswith("  remedy: ")


def test_an_error_as_json(rl):
    answer = rl("train", "missing.yaml", "--json")
    assert answer.code == 2
    assert answer.error["type"] == "SpecError"
    assert set(answer.error) == {"type", "what", "why", "remedy"}
    assert answer.err == ""


def test_debug_shows_the_traceback(rl):
    assert "Traceback" in rl("train", "missing.yaml", "--debug").err


@pytest.mark.parametrize(
    "arguments",
    [("runs", "list", "--limit", "x"), ("train", "--gama", "1"), ("nonsense",), ("replay",), ("runs", "show")],
)
def test_usage_errors_are_json_too(rl, arguments):
    answer = rl(*arguments, "--json")
    assert answer.code == 2
    assert answer.error["why"]
    assert "--help" in answer.error["remedy"]
    human = rl(*arguments)
    assert human.code == 2
    assert human.err.startswith("error: ")


def test_an_unknown_option_is_answered_with_one_that_is_alike_or_with_none(rl):
    assert rl("train", "x.yaml", "--seeed", "3", "--json").error["why"].endswith("Did you mean '--seed'?")
    for words in (("train", "x.yaml", "--start", "2030-01-01"), ("replay", "latest", "--lr", "1")):
        assert "Did you mean" not in rl(*words, "--json").error["why"], words


def test_an_internal_error_asks_for_debug(rl, monkeypatch, random_spec):
    def fail(*_):
        raise KeyError("oops")

    monkeypatch.setattr(spec_module, "spec_of", fail)
    answer = rl("spec", "hash", random_spec)
    assert answer.code == 1
    assert "internal error" in answer.err
    assert "--debug" in answer.err
    assert "Traceback" not in answer.err
    assert "Traceback" in rl("spec", "hash", random_spec, "--debug").err
    assert rl("spec", "hash", random_spec, "--json").error["type"] == "KeyError"


def test_a_run_that_fails_says_which(rl, tmp_path):
    path = tmp_path / "nowhere.yaml"
    env = "{class: gymnasium, kwargs: {id: CartPole-v1, kwargs: {nothing: 1}}}"
    path.write_text(f"name: nowhere\nenv: {env}\nagent: {{class: random}}\n")
    answer = rl("train", path, "--json")
    assert answer.code == 2
    assert answer.error["type"] == "EnvError"
    shown = rl("runs", "show", answer.error["run_id"], "--json").json["run"]
    assert shown["status"] == "failed"
    assert "CartPole-v1" in shown["error"]


def test_an_unknown_variable_of_ours_is_an_error(rl, monkeypatch):
    monkeypatch.setenv("ALPHASWARM_RL_HOEM", "x")
    answer = rl("runs", "list")
    assert answer.code == 2
    assert "ALPHASWARM_RL_HOME" in answer.err


def test_a_settings_file_that_is_not_there(rl):
    assert "none.yaml" in rl("runs", "list", "--settings", "none.yaml").err


def test_settings_come_from_the_file(rl, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(f"ledger: {{url: 'sqlite:///{tmp_path / 'other.db'}'}}\n")
    assert rl("db", "status", "--settings", path, "--json").json["url"].endswith("other.db")


def test_a_plugin_is_imported_from_the_working_directory(rl, tmp_path):
    (tmp_path / "work" / "my_policies.py").write_text(
        "from alphaswarm_rl.core.kinds import Policy\n\n\n"
        "class Lazy(Policy):\n    '''It does nothing.'''\n\n    rl_alias = 'lazy_of_a_test'\n\n"
        "    def build(self, request):\n        raise NotImplementedError\n"
    )
    # A process of its own: a class stays in the catalogue for as long as the process lives.
    command = [sys.executable, "-m", "alphaswarm_rl.cli", "components", "list", "--plugin", "my_policies"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "lazy_of_a_test" in done.stdout
    assert "lazy_of_a_test" not in rl("components", "list").out
    assert rl("components", "list", "--plugin", "no_such_module").code == 2


def test_what_libraries_print_is_not_in_the_answer(rl, tmp_path):
    (tmp_path / "work" / "noisy_of_a_test.py").write_text("print('hello')\n")
    answer = rl("options", "--plugin", "noisy_of_a_test", "--json")
    assert answer.json
    assert answer.err == "hello\n"


def test_a_closed_pipe_is_quiet():
    command = f"set -o pipefail; {sys.executable} -m alphaswarm_rl.cli options --json | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == ""


LONG = "x" * 300
METRICS = '{"mean_reward": 1, "std_reward": 1, "episodes": 1, "mean_episode_length": 1, "total_timesteps": 1}'


@pytest.mark.parametrize(
    "arguments",
    [
        ("spec", "hash", LONG),
        ("spec", "validate", "9" * 5000),
        ("spec", "hash", "a\0b"),
        ("evaluate", "9" * 5000),
        ("evaluate", "cartpole_random", "--checkpoint", LONG),
        ("options", "--plugin=../x"),
        ("options", "--plugin="),
        ("runs", "list", "--home", LONG),
        ("runs", "list", "--home", "~nobody_at_all/x"),
        ("runs", "list", "--settings", LONG),
        ("infer", "--model-path", LONG),
        ("models", "add", LONG, METRICS),
        ("models", "add", "x", LONG),
        ("models", "add", "x", "~nobody_at_all/x"),
        ("models", "add", "x", '{"episodes": ' + "9" * 5000 + "}"),
        ("models", "add", "x", '{"returns": ' + "[" * 5000 + "]" * 5000 + "}"),
        ("lake", "export", "x", LONG),
        ("runs", "export", "x", "--out", LONG),
        ("tune", LONG),
        ("train", "cartpole_random", "--net-arch", "[" * 5000),
        ("train", "cartpole_random", "--gamma", "9" * 5000),
    ],
    ids=lambda arguments: " ".join(arguments)[:40].replace("\0", "NUL"),
)
def test_words_that_nobody_can_mean_are_wrong_input(rl, arguments):
    answer = rl(*arguments, "--json")
    assert answer.code == 2, answer
    found = answer.json
    error = found["error"] if "error" in found else found["specs"][0]["error"]
    assert error["what"] != "internal error"
    assert error["why"]
    assert error["remedy"]


@pytest.mark.timeout(60)
def test_a_fifo_is_wrong_input_wherever_a_file_is_read(rl, tmp_path):
    fifo = tmp_path / "fifo.yaml"
    os.mkfifo(fifo)
    os.mkfifo("pipe")  # named like a preset
    for arguments in (
        ("spec", "hash", fifo),
        ("train", "pipe"),
        ("runs", "list", "--settings", fifo),
        ("tune", fifo),
        ("models", "add", "x", fifo),
    ):
        answer = rl(*arguments, "--json")
        assert (answer.code, "is a FIFO" in answer.error["why"]) == (2, True), answer


HUGE = str(10**30)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["train", "SPEC", "--total-timesteps", HUGE], "training.total_timesteps"),
        (["train", "SPEC", "--episodes", HUGE], "evaluation.episodes"),
        (["train", "SPEC", "--checkpoint-freq", HUGE], "checkpoint_freq"),
        (["runs", "list", "--limit", HUGE], "limit"),
        (["models", "show", HUGE], "model"),
    ],
)
def test_a_number_that_no_database_holds_is_wrong_input(rl, random_spec, arguments, field):
    answer = rl(*(str(random_spec) if word == "SPEC" else word for word in arguments), "--json")
    assert answer.code == 2, answer.out
    assert f"{field}: a whole number is at most 9007199254740991" in answer.error["why"]


def test_a_home_that_is_no_folder_is_wrong_input(rl, random_spec):
    for command in (["runs", "list"], ["train", random_spec], ["halt", "--reason", "x"]):
        answer = rl(*command, "--home", "/dev/null", "--json")
        assert answer.code == 2
        assert "no folder" in answer.error["why"]


def test_a_fifo_as_the_ledger_is_wrong_input_and_a_halt_holds_beside_it(rl, home):
    home.mkdir()
    os.mkfifo(home / "ledger.db")
    answer = rl("runs", "list", "--json")
    assert answer.code == 2
    assert answer.error["why"] == "ledger.db is a FIFO, not a regular file"
    assert rl("halt", "--reason", "x").code == 0
    assert (home / "ledger.db.halt").is_file()


def test_a_broken_spec_is_told_in_sentences_that_end_once(rl, tmp_path):
    (tmp_path / "own.yaml").write_text("name: own\ntrainning: {}\n")
    answer = rl("spec", "validate", tmp_path / "own.yaml")
    assert answer.code == 2
    assert "Did you mean 'training'? See every field" in answer.out

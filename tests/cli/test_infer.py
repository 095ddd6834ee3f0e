"""`rl infer`."""

import json
import os

import pytest

from .calling import finished, start

ZERO = "[0, 0, 0, 0]\n"


def lines(answer):
    return [json.loads(line) for line in answer.out.splitlines()]


def test_one_answer_per_line(rl, trained):
    wrapped = '{"observation": [0.1, 0, 0, 0], "episode_start": true}\n'
    answer = rl("infer", stdin=ZERO + "\n" + wrapped)
    assert answer.code == 0
    assert [line["action"] in (0, 1) for line in lines(answer)] == [True, True]
    assert {line["checkpoint_sha256"] for line in lines(answer)} == {trained["checkpoint_sha256"]}


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("[1]\n", "shape"),
        ("nonsense\n", "not JSON"),
        ("{}\n", "it is a mapping, and none is observed here"),
        ('{"observation": {}}\n', "it is a mapping, and none is observed here"),
        ("[" * 100_000 + "\n", "not JSON"),
        ('{"observation": [0,0,0,0], "episode_start": 1}\n', "episode_start"),
    ],
)
def test_a_bad_line_has_its_error_as_the_answer_and_the_next_ones_are_answered(rl, trained, bad, why):
    answer = rl("infer", stdin=ZERO + bad + ZERO)
    assert answer.code == 2
    first, second, third = lines(answer)
    assert first == third
    assert second["line"] == 2
    assert why in second["error"]["why"]
    assert "line 2" in answer.err


def test_answers_come_line_by_line(trained):
    process = start("infer", "--run", trained["run_id"])
    process.stdin.write(ZERO)
    process.stdin.flush()
    assert "action" in json.loads(process.stdout.readline())
    assert finished(process).code == 0


def test_a_folder_as_the_model(rl, trained):
    answer = rl("infer", "--model-path", trained["checkpoint"], stdin=ZERO)
    assert lines(answer)[0]["checkpoint_sha256"] == trained["checkpoint_sha256"]
    assert rl("infer", "--model-path", "nowhere", stdin=ZERO).code == 1
    assert rl("infer", "--model-path", "nowhere", "--run", "latest").code == 2


def test_a_fifo_as_the_model_is_wrong_input(rl, trained, tmp_path):
    os.mkfifo(tmp_path / "model")
    answer = rl("infer", "--model-path", tmp_path / "model", stdin=ZERO)
    assert answer.code == 2
    assert "it is no folder" in answer.err


def test_episodes_are_those_of_the_runs_evaluation(rl, trained):
    answers = lines(rl("infer", "--run", trained["run_id"], "--episodes", 3))
    returns = [sum(answer["reward"] for answer in answers if answer["episode"] == episode) for episode in range(3)]
    evaluated = rl("evaluate", trained["run_id"], "--episodes", 3, "--json").json
    assert sum(returns) / 3 == evaluated["metrics"]["mean_reward"]
    assert [answer["step"] for answer in answers if answer["episode"] == 0] == list(range(int(returns[0])))
    assert [answer["episode"] for answer in answers if answer["ends"]] == [0, 1, 2]
    assert {answer["action"] for answer in answers} <= {0, 1}
    assert {answer["checkpoint_sha256"] for answer in answers} == {trained["checkpoint_sha256"]}


def test_episodes_of_another_environment(rl, trained):
    answer = rl("infer", "--episodes", 2, "--env", "CartPole-v1", "--no-deterministic")
    assert sum(line["ends"] for line in lines(answer)) == 2
    other = rl("infer", "--episodes", 2, "--env", "MountainCar-v0")
    assert other.code == 2
    assert "observation space" in other.err
    assert rl("infer", "--env", "CartPole-v1").code == 2


def test_without_any_run(rl):
    answer = rl("infer", stdin=ZERO)
    assert answer.code == 2
    assert "rl train" in answer.err

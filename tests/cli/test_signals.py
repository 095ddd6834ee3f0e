"""Runs that end before their time: Ctrl-C, SIGTERM, the kill switch, SIGKILL."""

import signal

import pytest

from .calling import PPO, finished, start, wait_for_stage

ENDLESS = ("--total-timesteps", 10**9, "--checkpoint-freq", 640)
#: Not a multiple of the rollout's 64 transitions, so that every run of it ends a little later.
LONG = 8_100


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_halts_with_a_checkpoint(rl, ppo_spec, home, number):
    process = start("train", ppo_spec, *ENDLESS, "--json")
    run = wait_for_stage(home, "train.checkpoint", process)
    process.send_signal(number)
    answer = finished(process)
    assert answer.code == 3, answer.err
    assert answer.json["status"] == "halted"
    assert number.name in answer.json["halt_reason"]
    shown = rl("runs", "show", run, "--json").json["run"]
    assert shown["status"] == "halted"
    assert shown["checkpoint_sha256"] == answer.json["checkpoint_sha256"]
    # The checkpoint can be loaded: its policy plays.
    assert rl("evaluate", run, "--json").json["metrics"]["episodes"] == 3


def test_a_live_run_is_locked_and_the_kill_switch_ends_it(rl, ppo_spec, home):
    process = start("train", ppo_spec, *ENDLESS, "--json")
    run = wait_for_stage(home, "train.checkpoint", process)
    resumed = rl("resume", run)
    assert resumed.code == 2
    assert f"process {process.pid}" in resumed.err
    assert rl("runs", "rm", run, "--yes").code == 2
    follower = start("runs", "events", run, "--follow", "--json")
    assert rl("halt", run, "--reason", "enough").code == 0
    answer = finished(process)
    assert answer.code == 3, answer.err
    assert "enough" in answer.json["halt_reason"]
    assert finished(follower).json[-1]["stage"] == "halted"
    # The switch is latched: nothing goes on before it is released.
    assert rl("resume", run).code == 2
    assert rl("halt", run, "--release", "--reason", "go on").code == 0


def test_a_killed_run_is_interrupted_and_resumes_to_its_end(rl, tmp_path, home):
    spec = tmp_path / "long.yaml"
    spec.write_text(PPO.replace("256", str(LONG)))
    process = start("train", spec, "--checkpoint-freq", 640)
    run = wait_for_stage(home, "train.checkpoint", process)
    process.kill()
    finished(process)
    (row,) = rl("runs", "list", "--json").json
    assert (row["id"], row["status"]) == (run, "interrupted")
    assert row["timesteps"] < LONG
    resumed = rl("resume", run, "--json")
    assert resumed.code == 0, resumed.out
    assert resumed.json["run_id"] == run
    assert resumed.json["status"] == "completed"
    uninterrupted = rl("train", spec, "--checkpoint-freq", 640, "--json").json
    assert resumed.json["timesteps"] == uninterrupted["timesteps"] > LONG
    assert any("approximate" in notice for notice in resumed.json["notices"])
    assert rl("resume", run).code == 2


def test_a_signal_outside_a_run_ends_the_command(trained):
    process = start("infer", "--run", trained["run_id"])
    process.stdin.write("[0, 0, 0, 0]\n")
    process.stdin.flush()
    assert process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    answer = finished(process)
    assert answer.code == 3
    assert "Traceback" not in answer.err

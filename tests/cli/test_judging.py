"""`rl evaluate` and `rl replay`."""

import pytest


def test_evaluate_a_run(rl, trained):
    answer = rl("evaluate", trained["run_id"][:8], "--episodes", 2, "--json").json
    assert answer["parent_run_id"] == trained["run_id"]
    assert answer["version_id"] == trained["version_id"]
    assert answer["metrics"]["episodes"] == 2
    assert answer["checkpoint_sha256"] == trained["checkpoint_sha256"]


def test_eval_is_evaluate(rl, trained):
    assert "mean_reward" in rl("eval", "latest").out


def test_evaluate_a_spec_that_trains_nothing(rl, random_spec):
    first = rl("evaluate", random_spec, "--json").json
    other = rl("evaluate", random_spec, "--episodes", 5, "--seed", 3, "--json").json
    assert other["metrics"]["episodes"] == 5
    assert other["seed"] == 3
    # Arguments of a run change no version.
    assert other["version_id"] == first["version_id"]
    assert rl("evaluate", random_spec, "--n-envs", 1, "--json").json["version_id"] != first["version_id"]


def test_evaluate_a_spec_that_trains_needs_a_checkpoint(rl, trained, ppo_spec):
    answer = rl("evaluate", ppo_spec)
    assert answer.code == 2
    assert "--checkpoint" in answer.err
    assert (
        rl("evaluate", ppo_spec, "--checkpoint", trained["checkpoint"], "--json").json["metrics"] == trained["metrics"]
    )


def test_replay_with_another_seed(rl, trained):
    answer = rl("replay", trained["run_id"], "--seed", 7, "--json").json
    assert answer["parent_run_id"] == trained["run_id"]
    assert answer["version_id"] == trained["version_id"]
    assert answer["seed"] == 7
    assert answer["metrics"] != trained["metrics"]


def test_replay_of_a_step(rl, trained):
    assert rl("replay", "latest", "--checkpoint", trained["timesteps"], "--json").code == 0
    missing = rl("replay", trained["run_id"], "--checkpoint", 3)
    assert missing.code == 2
    assert "Kept: 256" in missing.err


def test_replay_of_a_replay_finds_the_steps_of_the_training_run(rl, trained):
    replayed = rl("replay", trained["run_id"], "--seed", 7, "--json").json
    again = rl("replay", replayed["run_id"], "--checkpoint", trained["timesteps"], "--json").json
    assert again["parent_run_id"] == replayed["run_id"]
    assert again["checkpoint_sha256"] == trained["checkpoint_sha256"]


@pytest.mark.parametrize(
    ("verb", "flag"),
    [
        ("train", "--model-path"),
        ("evaluate", "--model-path"),
        ("replay", "--keep-last"),
        ("replay", "--checkpoint-freq"),
        ("resume", "--run-name"),
        ("infer", "--log-dir"),
    ],
)
def test_a_setting_that_would_change_nothing_is_refused(rl, verb, flag):
    answer = rl(verb, *([] if verb in ("train", "infer") else ["latest"]), flag, "5")
    assert answer.code == 2
    assert flag in answer.err


@pytest.mark.parametrize("verb", ["evaluate", "replay", "resume"])
def test_other_options_of_the_spec_are_refused(rl, trained, verb):
    answer = rl(verb, trained["run_id"], "--gamma", "0.5")
    assert answer.code == 2
    assert "a stored version is run as it is stored" in answer.err


def test_other_variables_of_the_spec_are_ignored_with_a_notice(rl, trained, monkeypatch):
    monkeypatch.setenv("RL_TRAIN_GAMMA", "0.5")
    answer = rl("evaluate", trained["run_id"], "--json")
    assert answer.code == 0
    assert "RL_TRAIN_GAMMA is ignored" in answer.err
    assert answer.json["spec_hash"] == trained["spec_hash"]


@pytest.mark.parametrize("verb", ["evaluate", "replay"])
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--start", "soon"), "ISO date"),
        (("--start", "2024-02-01", "--end", "2024-01-01"), "does not end after it starts"),
        (("--start", "2024-01-01"), "has no dates"),
        (("--checkpoint", "best"), "no best model"),
        (("--seed", "-1"), "seed"),
        (("--episodes", "0"), "episodes"),
    ],
)
def test_wrong_arguments(rl, trained, verb, arguments, words):
    answer = rl(verb, trained["run_id"], *arguments)
    assert answer.code == 2
    assert words in answer.err


@pytest.mark.parametrize("verb", ["evaluate", "replay", "resume"])
def test_a_run_that_is_not_there(rl, verb):
    answer = rl(verb, "deadbeef", "--json")
    assert answer.code == 2
    assert answer.error["type"] == "RunError"


def test_a_tampered_checkpoint(rl, trained):
    from pathlib import Path

    arrays = Path(trained["checkpoint"]) / "state.safetensors"
    arrays.write_bytes(arrays.read_bytes()[:-1] + b"x")
    answer = rl("replay", trained["run_id"], "--json")
    assert answer.code == 1
    assert "changed" in answer.error["why"]


def test_where_the_arguments_come_from_is_said_and_stored(rl, trained, monkeypatch):
    monkeypatch.setenv("RL_EVAL_EPISODES", "2")
    answer = rl("evaluate", trained["run_id"], "--seed", "5", "--json")
    assert answer.json["overrides"] == {
        "seed": {"value": 5, "source": "flag --seed"},
        "episodes": {"value": 2, "source": "ENV RL_EVAL_EPISODES"},
    }
    assert "(flag --seed)" in answer.err

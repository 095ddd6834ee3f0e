import numpy as np
import pytest

from alphaswarm_rl.core.errors import CheckpointError, RunError
from alphaswarm_rl.inference.builder import Builder, load_preprocessing
from alphaswarm_rl.inference.checkpoints import load_checkpoint
from alphaswarm_rl.inference.policy_server import PolicyServer
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.settings import InferSettings, Settings
from tests.runtime.conftest import tiny

OBS = {"normalize": "running", "clip_range": 5.0, "stack_frames": 2}


@pytest.mark.parametrize("obs", [{}, OBS], ids=["plain", "preprocessed"])
def test_answers_are_the_actions_an_evaluation_takes(train, settings, obs):
    from pathlib import Path

    trained = train(obs=obs)
    loaded = load_checkpoint(Path(trained.checkpoint))
    inference = PolicyServer.of_run(settings, run=trained.run_id)
    builder = Builder(tiny(obs=obs), seed=3, device="cpu")
    raw = Builder(tiny(), seed=3, device="cpu").build_env(
        "evaluate", num_envs=1, phase="evaluate", window=tiny().evaluation.window
    )
    env = builder.build_env("evaluate", num_envs=1, phase="evaluate", window=tiny().evaluation.window)
    learner = builder.build_learner(env, training=False)
    learner.set_state(loaded.states["learner"])
    load_preprocessing(env, loaded.states.get("preprocessing"))
    seen, plain, start = env.reset(seed=1)[0], raw.reset(seed=1)[0], np.array([True])
    for _ in range(60):
        action, _ = learner.predict(seen, None, start, deterministic=True)
        answer = inference.answer(plain[0].tolist(), episode_start=bool(start[0]))
        assert answer.actions == action[0]
        assert answer.checkpoint_sha256 == trained.checkpoint_sha256
        seen, _, terminated, truncated, _ = env.step(action)
        plain, *_ = raw.step(action)
        start = terminated | truncated


def test_the_newest_run_answers_by_default(train, settings):
    train()
    newest = train(training={"seed": 9})
    assert PolicyServer.of_run(settings).policy.checkpoint.sha256 == newest.checkpoint_sha256


def test_a_checkpoint_folder_can_be_named(train, settings):
    first = train()
    train(training={"seed": 9})
    named = Settings(home=settings.home, infer=InferSettings(model_path=first.checkpoint))
    assert PolicyServer.of_run(named).policy.checkpoint.sha256 == first.checkpoint_sha256


@pytest.mark.parametrize("observation", [[1, 2], "text", [1, 2, 3, float("nan")], {"a": 1}, [[1, 2, 3, 4]]])
def test_an_observation_that_does_not_fit_is_explained(train, settings, observation):
    train()
    inference = PolicyServer.of_run(settings)
    with pytest.raises(RunError, match="observation"):
        inference.answer(observation)


@pytest.mark.parametrize("observation", [99, 1.5, -1, [3]])
def test_a_discrete_observation_must_be_in_its_space(train, settings, observation):
    train(env={"class": "gymnasium", "kwargs": {"id": "FrozenLake-v1"}})
    inference = PolicyServer.of_run(settings)
    assert inference.answer(3).actions in range(4)
    with pytest.raises(RunError, match="observation"):
        inference.answer(observation)


def test_a_number_too_large_for_its_type_is_refused(train, settings):
    train()
    with pytest.raises(RunError, match="infinity"):
        PolicyServer.of_run(settings).answer([1e40, 0, 0, 0])


def test_nothing_answers_while_the_kill_switch_is_engaged(train, settings):
    train()
    with Ledger.open(settings) as ledger:
        ledger.engage("*", "stop", "tester")
    with pytest.raises(RunError, match="kill switch"):
        PolicyServer.of_run(settings)


def test_without_any_run_there_is_nothing_to_answer_with(settings):
    with pytest.raises(RunError, match="no run has a checkpoint"):
        PolicyServer.of_run(settings)


def test_a_folder_that_is_no_checkpoint_is_refused(settings, tmp_path):
    with pytest.raises(CheckpointError, match="is not there"):
        PolicyServer.of_run(Settings(home=settings.home, infer=InferSettings(model_path=tmp_path)))

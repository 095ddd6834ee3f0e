"""Every field of a spec that is not refused changes the run: one test each, here or where it is named."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from alphaswarm_rl.core.errors import RunError, SpecError
from alphaswarm_rl.inference.checkpoints import load_checkpoint
from alphaswarm_rl.runtime import RLRuntime
from tests.runtime.conftest import tiny


def weights(result):
    return {
        key: array
        for key, array in load_file(Path(result.checkpoint, "state.safetensors")).items()
        if key.startswith("learner/")
    }


def differ(first, second):
    a, b = weights(first), weights(second)
    return set(a) != set(b) or any(a[key].shape != b[key].shape or not np.array_equal(a[key], b[key]) for key in a)


@pytest.mark.parametrize(
    "change",
    [
        {"env": {"class": "cartpole", "kwargs": {"max_episode_steps": 5}}},
        {"obs": {"normalize": "running"}},
        {"obs": {"normalize": "fixed"}},
        {"obs": {"clip_range": 0.01}},
        {"obs": {"stack_frames": 3}},
        {"agent": {"class": "a2c", "kwargs": {"net_arch": [8]}}},
        {"agent_kwargs": {"learning_rate": "1e-2"}},
        {"agent_kwargs": {"gamma": 0.5}},
        {"agent_kwargs": {"batch_size": 64}},
        {"agent_kwargs": {"net_arch": [4, 4]}},
        {"agent_kwargs": {"encoder": "mlp"}},
        {"agent_kwargs": {"encoder": "mlp", "embed_dim": 8}},
        {"training": {"total_timesteps": 640}},
        {"training": {"seed": 4}},
        {"training": {"n_envs": 2}},
    ],
    ids=lambda change: str(change),
)
def test_the_field_changes_what_is_learned(train, change):
    assert differ(train(), train(**change))


def test_preprocessing_statistics_travel_in_the_checkpoint(train):
    for how in ("running", "fixed"):
        states = load_checkpoint(Path(train(obs={"normalize": how}).checkpoint)).states
        assert any(array.size for array in states["preprocessing"].arrays.values()), how


def test_fixed_statistics_never_change_after_they_were_fitted(train):
    short = load_checkpoint(Path(train(obs={"normalize": "fixed"}).checkpoint)).states["preprocessing"]
    long = load_checkpoint(
        Path(train(obs={"normalize": "fixed"}, training={"total_timesteps": 1024}).checkpoint)
    ).states["preprocessing"]
    assert short.arrays.keys() == long.arrays.keys()
    assert all(np.array_equal(short.arrays[key], long.arrays[key]) for key in short.arrays)


def test_episodes_and_determinism_of_the_evaluation(train, ledger):
    many, drawn = train(evaluation={"episodes": 7}), train(evaluation={"deterministic": False})
    assert many.metrics["episodes"] == 7
    assert ledger.evaluations(drawn.run_id)[0].deterministic is False
    assert drawn.metrics["mean_reward"] != train().metrics["mean_reward"]


def test_the_evaluation_does_not_depend_on_the_number_of_environments(train, settings):
    result = train(evaluation={"episodes": 6})
    rows = []
    for episodes in (1, 3, 6):
        rows.append(RLRuntime.from_run(result.run_id, settings).evaluate(episodes=episodes).run_id)
    from alphaswarm_rl.ledger import Ledger

    with Ledger.open(settings) as ledger:
        returns = [ledger.evaluations(row)[0].metrics["returns"] for row in rows]
    assert returns[0] == returns[2][:1]
    assert returns[1] == returns[2][:3]


def test_render_keeps_the_first_episode_as_a_picture(train):
    from PIL import Image

    result = train(
        env={"class": "gymnasium", "kwargs": {"id": "CartPole-v1"}}, evaluation={"render": True, "episodes": 2}
    )
    with Image.open(result.metrics["recording"]) as picture:
        assert picture.n_frames >= 5


def test_windows_change_the_data_of_an_environment_with_dates(settings, ledger):
    spec = tiny(
        env={"class": "gymnasium", "kwargs": {"id": "stocks-v0"}},
        training={
            "start": "2010-01-01",
            "end": "2010-06-01",
            "validation_start": "2010-06-01",
            "validation_end": "2010-09-01",
            "eval_during_training": True,
            "eval_freq": 256,
        },
        evaluation={"start": "2011-01-01", "end": "2011-03-01", "episodes": 1},
    )
    trained = RLRuntime(spec, settings).train()
    assert trained.metrics["in_sample"] is False
    validation, final = ledger.evaluations(trained.run_id)[0], ledger.evaluations(trained.run_id)[-1]
    assert (validation.phase, validation.in_sample) == ("validation", True)
    assert final.in_sample is False
    from alphaswarm_rl import Window

    runtime = RLRuntime.from_run(trained.run_id, settings)
    inside = runtime.replay(Window("2010-02-01", "2010-05-01"))
    outside = runtime.replay(Window("2012-01-01", "2012-03-01"))
    assert inside.metrics["in_sample"] is True
    assert outside.metrics["in_sample"] is False
    prints = {ledger.run(result.run_id).data_fingerprint for result in (trained, inside, outside)}
    assert len(prints) == 3


def test_an_evaluation_spec_is_evaluated_and_not_trained(settings):
    spec = tiny(kind="evaluation", agent={"class": "random"})
    assert RLRuntime(spec, settings).evaluate().metrics["episodes"] == 4
    with pytest.raises(SpecError, match="cannot be run with 'train'"):
        RLRuntime(spec, settings).train()


def test_a_runtime_without_a_run_cannot_resume(settings):
    with pytest.raises(RunError, match="not made from a run"):
        RLRuntime(tiny(), settings).resume()

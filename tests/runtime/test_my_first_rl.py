"""The preset `my_first_rl`: trained once, replayed on other dates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from alphaswarm_rl import Ledger, RLRuntime, Settings, Window
from alphaswarm_rl.inference.building import Builder
from alphaswarm_rl.inference.checkpoints import load_checkpoint
from alphaswarm_rl.options import effective_spec
from alphaswarm_rl.spec import load_spec

QUARTER = Window("2021-01-01", "2021-04-01")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A short training of the preset, and where it lies."""
    settings = Settings(home=tmp_path_factory.mktemp("home"))
    spec = effective_spec(load_spec("my_first_rl"), {"train.totalTimesteps": 5000}, {}).spec
    return settings, RLRuntime(spec, settings).train()


def test_two_replays_are_two_rows_of_one_version_with_the_same_bytes(trained):
    settings, run = trained
    results = [RLRuntime.from_run(run.run_id, settings).replay(QUARTER) for _ in range(2)]
    with Ledger.open(settings) as ledger:
        rows = [ledger.run(result.run_id) for result in results]
        first = ledger.run(run.run_id)
        returns = [ledger.evaluations(result.run_id)[0].metrics["returns"] for result in results]
    assert len({row.id for row in (*rows, first)}) == 3
    assert {row.version_id for row in (*rows, first)} == {first.version_id}
    assert {row.parent_run_id for row in rows} == {first.id}
    assert returns[0] == returns[1]
    assert results[0].metrics == results[1].metrics
    assert rows[0].data_fingerprint == rows[1].data_fingerprint != first.data_fingerprint
    assert [row.in_sample for row in rows] == [False, False]


def test_rewards_and_weights_of_every_step_are_the_same_bytes(trained):
    settings, run = trained
    assert _played(settings, run) == _played(settings, run)


def _played(settings, run):
    """Rewards and portfolio weights of the quarter, step by step."""
    with Ledger.open(settings) as ledger:
        row = ledger.run(run.run_id)
    loaded = load_checkpoint(Path(row.checkpoint), expected_sha256=row.checkpoint_sha256)
    builder = Builder(RLRuntime.from_run(run.run_id, settings).spec, seed=row.seed, device="cpu")
    builder.restore_data(loaded.states)
    env = builder.build_env("evaluate", num_envs=1, phase="evaluate", window=QUARTER)
    learner = builder.build_learner(env, training=False)
    learner.set_state(loaded.states["learner"])
    observation, _ = env.reset()
    kept = []
    for _ in range(env.plan.length):
        action, _ = learner.predict(observation, None, np.ones(1, bool), deterministic=True)
        observation, reward, *_ = env.step(action)
        kept.append(reward.tobytes() + env.view.weights.tobytes())
    return kept


@pytest.mark.parametrize(
    ("window", "in_sample"),
    [
        (Window("2015-06-01", "2016-06-01"), True),
        (Window("2018-12-01", "2019-02-01"), True),
        (Window("2019-01-01", "2019-06-01"), False),
    ],
)
def test_a_window_that_training_or_validation_saw_is_in_sample(trained, window, in_sample):
    settings, run = trained
    assert RLRuntime.from_run(run.run_id, settings).replay(window).metrics["in_sample"] is in_sample

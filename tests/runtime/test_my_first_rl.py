"""The preset `my_first_rl`: trained once, replayed on other dates."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from alphaswarm_rl import Ledger, RLRuntime, Settings, Window
from alphaswarm_rl.core import catalogue
from alphaswarm_rl.inference.builder import Builder
from alphaswarm_rl.inference.checkpoints import load_checkpoint
from tests.cli.calling import call

QUARTER = Window("2021-01-01", "2021-04-01")


@pytest.fixture(scope="module")
def trained_and_counted(tmp_path_factory):
    """A short training of the preset by `rl train`, and how often things were made meanwhile."""
    home, counts = tmp_path_factory.mktemp("home"), Counter()
    configure, build = catalogue.configure, catalogue.get("env", "stock_portfolio").build

    def configured(*reference, **how):
        counts["configured"] += 1
        return configure(*reference, **how)

    def built(component, request):
        counts[f"env for {request.phase} from {request.window.start}"] += 1
        return build(component, request)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ALPHASWARM_RL_HOME", str(home))
        patch.setattr(catalogue, "configure", configured)
        patch.setattr(catalogue.get("env", "stock_portfolio"), "build", built)
        answer = call("train", "my_first_rl", "--total-timesteps", 5000, "--json")
    return Settings(home=home), answer.json["run_id"], counts


@pytest.fixture(scope="module")
def trained(trained_and_counted):
    """Where the training lies, and its run."""
    return trained_and_counted[:2]


def test_an_environment_is_built_once_per_phase(trained_and_counted):
    _, _, counts = trained_and_counted
    built = {name: count for name, count in counts.items() if name.startswith("env")}
    assert built == {
        "env for train from 1995-01-01": 1,
        "env for evaluate from 2016-01-01": 1,
        "env for evaluate from 2019-01-01": 1,
    }


def test_the_catalogue_configures_few_references(trained_and_counted):
    _, _, counts = trained_and_counted
    assert 0 < counts["configured"] <= 60


def test_two_replays_are_two_rows_of_one_version_with_the_same_bytes(trained):
    settings, run_id = trained
    results = [RLRuntime.from_run(run_id, settings).replay(QUARTER) for _ in range(2)]
    with Ledger.open(settings) as ledger:
        rows = [ledger.run(result.run_id) for result in results]
        first = ledger.run(run_id)
        returns = [ledger.evaluations(result.run_id)[0].metrics["returns"] for result in results]
    assert len({row.id for row in (*rows, first)}) == 3
    assert {row.version_id for row in (*rows, first)} == {first.version_id}
    assert {row.parent_run_id for row in rows} == {first.id}
    assert returns[0] == returns[1]
    assert results[0].metrics == results[1].metrics
    assert rows[0].data_fingerprint == rows[1].data_fingerprint != first.data_fingerprint
    assert [row.in_sample for row in rows] == [False, False]


def test_rewards_and_weights_of_every_step_are_the_same_bytes(trained):
    settings, run_id = trained
    assert _played(settings, run_id) == _played(settings, run_id)


def _played(settings, run_id):
    """Rewards and portfolio weights of the quarter, step by step."""
    with Ledger.open(settings) as ledger:
        row = ledger.run(run_id)
    loaded = load_checkpoint(Path(row.checkpoint), expected_sha256=row.checkpoint_sha256)
    builder = Builder(RLRuntime.from_run(run_id, settings).spec, seed=row.seed, device="cpu")
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
    settings, run_id = trained
    assert RLRuntime.from_run(run_id, settings).replay(window).metrics["in_sample"] is in_sample

"""A policy that was trained before, named by run or model, played in another run."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from alphaswarm_rl.core.contracts import FrozenRef, PolicyRequest, State
from alphaswarm_rl.core.errors import AlphaSwarmError, CheckpointError, ComponentError, RunError, SpecError
from alphaswarm_rl.core.refs import build_from_config
from alphaswarm_rl.core.window import Window
from alphaswarm_rl.inference.frozen_policies import FrozenPolicies
from alphaswarm_rl.inference.policy_stream import memory_from_state, memory_to_state
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.models.registry import ModelRegistry
from alphaswarm_rl.runtime import RLRuntime
from alphaswarm_rl.settings import StoreSettings
from alphaswarm_rl.spec import RLExperimentSpec
from tests.runtime.test_resume import halted_run

PPO = {"class": "ppo", "kwargs": {"n_steps": 32, "batch_size": 32, "n_epochs": 1, "net_arch": [8]}}
RECURRENT = {
    "class": "recurrent_ppo",
    "kwargs": {"n_steps": 32, "batch_size": 32, "n_epochs": 1, "net_arch": [8], "lstm_hidden_size": 8},
}


def spec(agent, **changes):
    data = {
        "name": "Frozen",
        "env": {"class": "cartpole"},
        "agent": agent,
        "training": {"total_timesteps": 256, "n_envs": 4, "seed": 3},
        "evaluation": {"episodes": 6},
    }
    return RLExperimentSpec.from_data({**data, **changes})


def frozen(**kwargs):
    return {"class": "policy", "kwargs": {"policy": {"class": "frozen", "kwargs": kwargs}}}


def metrics(result):
    return {name: value for name, value in result.metrics.items() if name != "in_sample"}


@pytest.mark.parametrize("agent", [PPO, RECURRENT], ids=["ppo", "recurrent"])
@pytest.mark.parametrize(
    "obs", [{}, {"normalize": "running", "clip_range": 5.0, "stack_frames": 3}], ids=["plain", "prepared"]
)
@pytest.mark.parametrize("deterministic", [True, False])
def test_a_frozen_policy_plays_as_the_run_it_is_of(settings, agent, obs, deterministic):
    trained = RLRuntime(spec(agent, obs=obs), settings).train()
    own = RLRuntime.from_run(trained.run_id, settings).evaluate(seed=11, deterministic=deterministic)
    again = RLRuntime(spec(frozen(run=trained.run_id)), settings).evaluate(seed=11, deterministic=deterministic)
    assert again.status == "completed"
    assert metrics(own)["mean_reward"] > 0
    assert again.metrics["in_sample"] is own.metrics["in_sample"]
    if deterministic:
        assert metrics(again) == metrics(own)
    else:  # other names, other draws; but the same ones each time
        repeated = RLRuntime(spec(frozen(run=trained.run_id)), settings).evaluate(seed=11, deterministic=False)
        assert metrics(again) == metrics(repeated)


def test_the_row_says_which_checkpoint_played(settings):
    trained = RLRuntime(spec(PPO), settings).train()
    played = RLRuntime(spec(frozen(run=trained.run_id[:8])), settings).evaluate()
    with Ledger.open(settings) as ledger:
        notices = ledger.run(played.run_id).notices
    assert any(trained.checkpoint_sha256 in note and trained.run_id in note for note in notices)


def test_a_checkpoint_by_step_best_and_checksum(settings):
    settings = settings.model_copy(update={"store": StoreSettings(checkpoint_freq=128, keep_last=9)})
    training = {"total_timesteps": 256, "n_envs": 4, "seed": 3, "eval_during_training": True, "eval_freq": 128}
    trained = RLRuntime(spec(PPO, training=training), settings).train()
    first = RLRuntime(spec(frozen(run=trained.run_id, checkpoint=128)), settings).evaluate()
    own = RLRuntime.from_run(trained.run_id, settings).evaluate(checkpoint=128)
    assert metrics(first) == metrics(own)
    best = RLRuntime(spec(frozen(run=trained.run_id, checkpoint="best")), settings).evaluate()
    assert metrics(best) == metrics(RLRuntime.from_run(trained.run_id, settings).evaluate(checkpoint="best"))
    pinned = frozen(run=trained.run_id, sha256=trained.checkpoint_sha256)
    assert RLRuntime(spec(pinned), settings).evaluate().status == "completed"
    with pytest.raises(CheckpointError, match="not 000"):
        RLRuntime(spec(frozen(run=trained.run_id, sha256="0" * 64)), settings).evaluate()


def test_a_registered_model_by_its_id(settings):
    trained = RLRuntime(spec(PPO), settings).train()
    with ModelRegistry.open(settings) as registry:
        row = registry.find(sha256=trained.checkpoint_sha256)
    played = RLRuntime(spec(frozen(model=row.id)), settings).evaluate(seed=11)
    own = RLRuntime.from_run(trained.run_id, settings).evaluate(seed=11)
    assert metrics(played) == metrics(own)
    with Ledger.open(settings) as ledger:
        assert any(f"model {row.id}" in note for note in ledger.run(played.run_id).notices)


@pytest.mark.parametrize(("named", "why"), [({"run": "abcdef"}, "abcdef"), ({"model": 99}, "model 99")])
def test_what_is_not_there_is_an_error_that_leaves_no_run(settings, named, why):
    RLRuntime(spec(PPO), settings).train()
    with Ledger.open(settings) as ledger:
        before = len(ledger.runs(limit=None))
    with pytest.raises(AlphaSwarmError, match=why):
        RLRuntime(spec(frozen(**named)), settings).evaluate()
    with Ledger.open(settings) as ledger:
        assert len(ledger.runs(limit=None)) == before


def test_a_run_without_a_checkpoint_has_no_policy(settings):
    rule = RLRuntime(spec({"class": "random"}), settings).evaluate()
    with pytest.raises(RunError, match="no checkpoint"):
        RLRuntime(spec(frozen(run=rule.run_id)), settings).evaluate()


def test_an_environment_of_other_spaces_is_refused(settings):
    trained = RLRuntime(spec(PPO), settings).train()
    other = {"class": "gymnasium", "kwargs": {"id": "MountainCar-v0"}}
    with pytest.raises(AlphaSwarmError, match="trained for the observation space"):
        RLRuntime(spec(frozen(run=trained.run_id), env=other), settings).evaluate()


def test_observations_are_prepared_by_the_policy_alone(settings):
    trained = RLRuntime(spec(PPO), settings).train()
    with pytest.raises(SpecError, match="as in its training"):
        RLRuntime(spec(frozen(run=trained.run_id), obs={"normalize": "running"}), settings).evaluate()


def test_a_frozen_policy_can_be_frozen_again(settings):
    trained = RLRuntime(spec(RECURRENT, obs={"stack_frames": 2}), settings).train()
    played = RLRuntime(spec(frozen(run=trained.run_id, deterministic=True)), settings).train()
    twice = RLRuntime(spec(frozen(run=played.run_id)), settings).evaluate(seed=11)
    assert metrics(twice) == metrics(RLRuntime.from_run(trained.run_id, settings).evaluate(seed=11))


@pytest.mark.parametrize("agent", [PPO, RECURRENT], ids=["ppo", "recurrent"])
def test_its_memory_and_frames_are_state(settings, agent):
    trained = RLRuntime(spec(agent, obs={"stack_frames": 3}), settings).train()
    policies, ref = FrozenPolicies(settings), FrozenRef(run=trained.run_id)
    rng, starts = np.random.default_rng(0), np.zeros(4, bool)
    seen = rng.uniform(-1, 1, (12, 4, 4)).astype(np.float32)
    first = policies(ref)
    for step in range(6):
        first.act(seen[step], starts, deterministic=True, masks=None)
    state, second = first.get_state(), policies(ref)
    second.set_state(State(dict(state.arrays), dict(state.data)))
    for step in range(6, 12):
        actions = [each.act(seen[step], starts, deterministic=True, masks=None) for each in (first, second)]
        assert np.array_equal(*actions)
    end = first.get_state().arrays
    assert all(np.array_equal(end[name], array) for name, array in second.get_state().arrays.items())
    with pytest.raises(CheckpointError, match="cannot be read"):
        second.set_state(State())


@pytest.mark.parametrize("deterministic", [True, None])
def test_a_deterministic_one_resumes_bit_for_bit_and_one_that_draws_says_it_does_not(settings, deterministic):
    trained = RLRuntime(spec(RECURRENT, obs={"stack_frames": 3}), settings).train()
    played = spec(
        frozen(run=trained.run_id, deterministic=deterministic),
        training={"total_timesteps": 6000, "log_interval": 1, "n_envs": 4},
    )
    stopped = halted_run(played, settings, count=1)
    resumed = RLRuntime.from_run(stopped.run_id, settings).resume()
    with Ledger.open(settings) as ledger:
        assert ledger.run(resumed.run_id).resume == ("exact" if deterministic else "approximate")
    if deterministic:
        whole = RLRuntime(played, settings).train()
        assert resumed.checkpoint_sha256 == whole.checkpoint_sha256


def test_it_remembers_within_an_episode_and_nothing_beyond_its_start(settings):
    trained = RLRuntime(spec(RECURRENT), settings).train()
    policy = FrozenPolicies(settings)(FrozenRef(run=trained.run_id))
    x = np.random.default_rng(0).uniform(-1, 1, (3, 2, 4)).astype(np.float32)
    none = np.zeros(2, bool)

    def memory(*steps):
        for observation, starts in steps:
            policy.act(observation, starts, deterministic=True, masks=None)
        return policy.get_state().arrays["memory/0"].copy()

    continued = memory((x[0], ~none), (x[1], none))
    begun = memory((x[0], ~none), (x[1], np.array([False, True])))
    assert np.array_equal(continued[:, 0], begun[:, 0])
    assert not np.array_equal(continued[:, 1], begun[:, 1])


@pytest.mark.parametrize(
    ("kwargs", "why"),
    [
        ({}, "exactly one of run and model"),
        ({"run": "abcdef", "model": 1}, "exactly one of run and model"),
        ({"run": "latest"}, "another one tomorrow"),
        ({"model": 1, "checkpoint": "best"}, "leave checkpoint out"),
        ({"run": "abcdef", "checkpoint": "first"}, "checkpoint"),
    ],
)
def test_names_that_cannot_be(kwargs, why):
    with pytest.raises(ComponentError, match=why):
        build_from_config({"class": "frozen", "kwargs": kwargs}, kind="policy")


def test_without_a_runtime_there_is_no_way_to_runs():
    policy = build_from_config({"class": "frozen", "kwargs": {"run": "abcdef"}}, kind="policy")
    with pytest.raises(ComponentError, match="no way to runs"):
        policy.build(PolicyRequest(spaces.Box(0, 1, (2,)), spaces.Discrete(2), 1, 0))


def test_memories_of_every_kind_survive():
    import torch

    array, tensor = np.arange(4.0).reshape(2, 2), torch.arange(3.0)
    assert memory_from_state(memory_to_state(None)) is None
    assert np.array_equal(memory_from_state(memory_to_state(array)), array)
    first, second = memory_from_state(memory_to_state((array, tensor)))
    assert np.array_equal(first, array)
    assert torch.equal(second, tensor)


def trading(agent, *, end="2020-08-03", scaler="zscore"):
    bars = {"n_assets": 2, "n_bars": 300, "features": ["macd"], "scaler": scaler, "seed": 1}
    return spec(
        agent,
        env={"class": "stock_portfolio", "kwargs": {"fill": "next_close", "episode_bars": 20}},
        data_pipeline={"class": "synthetic", "kwargs": bars},
        training={"total_timesteps": 128, "n_envs": 4, "seed": 3, "end": end},
        evaluation={"episodes": 4, "start": "2020-08-03", "end": "2020-11-02"},
    )


def test_market_data_are_scaled_as_in_its_training_and_its_dates_are_in_sample(settings):
    trained = RLRuntime(trading(PPO), settings).train()
    own = RLRuntime.from_run(trained.run_id, settings).evaluate(seed=11)
    # Scalers fitted on other dates would show it other numbers.
    played = RLRuntime(trading(frozen(run=trained.run_id), end="2020-04-01"), settings).evaluate(seed=11)
    assert played.metrics == own.metrics
    assert played.metrics["in_sample"] is False
    seen = RLRuntime(trading(frozen(run=trained.run_id), end="2020-04-01"), settings).evaluate(
        window=Window("2020-05-01", "2020-07-01")
    )
    assert seen.metrics["in_sample"] is True


def test_another_data_pipeline_is_said(settings):
    trained = RLRuntime(trading(PPO), settings).train()
    played = RLRuntime(trading(frozen(run=trained.run_id), scaler="none"), settings).evaluate()
    with Ledger.open(settings) as ledger:
        assert any("another data_pipeline" in note for note in ledger.run(played.run_id).notices)


def test_masks_are_heeded(settings):
    action = {"class": "masked_discrete", "kwargs": {"asset": "SYN0"}}

    def masked(agent):
        return RLExperimentSpec.from_data({**trading(agent).as_data(), "action": action})

    trained = RLRuntime(masked({"class": "maskable_ppo", "kwargs": PPO["kwargs"]}), settings).train()
    own = RLRuntime.from_run(trained.run_id, settings).evaluate(seed=11)
    policy = frozen(run=trained.run_id)
    assert RLRuntime(masked(policy), settings).evaluate(seed=11).metrics == own.metrics
    assert RLRuntime(masked(policy), settings).train().status == "completed"
    playing = FrozenPolicies(settings)(FrozenRef(run=trained.run_id))
    seen, only = np.zeros((3, *playing.observation_space.shape), np.float32), np.eye(3, dtype=bool)
    assert playing.act(seen, np.ones(3, bool), deterministic=True, masks=only).tolist() == [0, 1, 2]

"""Training where the environment is in torch: here on CPU tensors, as it goes on a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from alphaswarm_rl.agents.native import device_learner, host_learner
from alphaswarm_rl.agents.native.ppo import PpoInhouse
from alphaswarm_rl.arrays import compiled_function
from alphaswarm_rl.core.contracts import AgentRequest
from alphaswarm_rl.core.errors import CheckpointError, EnvError
from alphaswarm_rl.envs.device_episodes import DeviceEpisodes
from alphaswarm_rl.envs.making import make_env
from alphaswarm_rl.envs.truth.oracle_feature import OracleFeature

SMALL = {"n_steps": 8, "batch_size": 16, "n_epochs": 2, "net_arch": (16,)}


class Hooks:
    def __init__(self, halt_after: int | None = None) -> None:
        self.rollouts = 0
        self.metrics: dict[str, float] = {}
        self._halt_after = halt_after

    def boundary(self, metrics: Any) -> None:
        self.rollouts += 1
        self.metrics = metrics

    def decided(self, values: Any, log_probs: Any) -> None:
        raise AssertionError("nothing is told step by step")

    def should_halt(self) -> bool:
        return self.rollouts == self._halt_after


class Told(Hooks):
    """Of a learner on this side."""

    def decided(self, values: Any, log_probs: Any) -> None:
        pass


def oracle(seed: int = 0) -> Any:
    return make_env("oracle_feature", num_envs=4, seed=seed, backend="torch")


def built(env: Any, seed: int = 0, **kwargs: Any) -> Any:
    return PpoInhouse(PpoInhouse.Config(**{**SMALL, **kwargs})).build(AgentRequest.for_env(env=env, seed=seed))


def same(one: Any, other: Any) -> None:
    assert one.data == other.data
    for name, array in one.arrays.items():
        np.testing.assert_array_equal(array, other.arrays[name], err_msg=name)


def test_it_repeats_itself_and_goes_on_bit_for_bit() -> None:
    env = oracle()
    whole = built(env)
    whole.train(env, 160, Hooks())
    first_env = oracle()
    first = built(first_env)
    first.train(first_env, 160, Hooks(2))
    assert first.timesteps == 64
    second_env = oracle(seed=9)
    second = built(second_env, seed=9)
    second.set_state(first.get_state())
    second_env.set_state(first_env.get_state())
    second.train(second_env, 160, Hooks())
    same(second.get_state(), whole.get_state())


def test_it_reports_what_the_cpu_learner_reports() -> None:
    on_device, on_host = Hooks(), Told()
    env, plain = oracle(), make_env("oracle_feature", num_envs=4, seed=0)
    built(env).train(env, 32, on_device)
    built(plain).train(plain, 32, on_host)
    assert set(on_device.metrics) == set(on_host.metrics)
    assert all(isinstance(value, float) for value in on_device.metrics.values())


def test_the_explained_variance_is_that_of_the_cpu_learner() -> None:
    returns = np.array([1.0, 2.0, 4.0, 5.0])
    values = np.array([1.5, 2.0, 3.5, 4.0])
    # Returns have variance 2.5; what is left of them has 0.3125.
    assert host_learner._explained(values, returns) == pytest.approx(0.875)
    found = device_learner._explained(torch.from_numpy(values), torch.from_numpy(returns))
    assert float(found) == pytest.approx(0.875)


def test_moments_of_observations_are_those_of_all_that_was_seen() -> None:
    env = oracle()
    learner = built(env, n_steps=32)
    learner.train(env, 32 * 4, Hooks())
    seen = learner._rollout.observations[:32].reshape(-1, learner._width).to(torch.float64)
    # The first measure is that of the first observations, and cuts nothing off here.
    first = oracle().reset()[0].to(torch.float64)
    raw = seen * first.abs().amax(0).clamp(min=1.0) + first.mean(0)
    np.testing.assert_allclose(learner._scale.mean, raw.mean(0), atol=1e-5)
    np.testing.assert_allclose(learner._scale.variance, raw.var(0, correction=0), rtol=1e-4, atol=1e-6)


def test_compiled_it_does_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recorded and run as a GPU has it, and a batch of another shape as it comes."""
    monkeypatch.setattr(compiled_function, "_can_compile", lambda *_: True)
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    env = oracle()
    learner = built(env, n_steps=10, batch_size=16)
    learner.train(env, 200, Hooks())
    monkeypatch.undo()
    # Made now: whether it is compiled is settled when it is made, and by torch's own compiler that takes minutes.
    plain_env = oracle()
    plain = built(plain_env, n_steps=10, batch_size=16)
    assert (learner._act.compiles, plain._act.compiles) == (True, False)
    plain.train(plain_env, 200, Hooks())
    for name, array in plain.get_state().arrays.items():
        np.testing.assert_allclose(learner.get_state().arrays[name], array, rtol=1e-4, atol=1e-6, err_msg=name)


def test_it_learns_what_the_cpu_learner_learns() -> None:
    """The same networks, loss and rewards: both solve the task whose observation tells the next return."""
    quick = {"n_steps": 64, "batch_size": 64, "n_epochs": 4, "learning_rate": 3e-3}
    watched, plain = DeviceEpisodes(oracle()), make_env("oracle_feature", num_envs=4, seed=0)
    learner, other = built(watched, **quick), built(plain, **quick)
    learner.train(watched, 12_000, Hooks())
    other.train(plain, 12_000, Told())
    judge = make_env("oracle_feature", num_envs=64, seed=7)
    start = np.ones(64, np.bool_)

    def acting(trained: Any) -> Any:
        return lambda seen: trained.predict(seen, None, start, deterministic=True)[0]

    def earned(act: Any) -> float:
        seen, _ = judge.reset(seed=7)
        total = 0.0
        for _ in range(50):
            seen, rewards, *_ = judge.step(act(seen))
            total += rewards.mean() / 50
        return total

    best = earned(OracleFeature().solution().act)
    assert earned(acting(learner)) > 0.9 * best
    assert earned(acting(other)) > 0.9 * best


def test_a_pass_learns_from_what_is_left_of_a_batch() -> None:
    env = oracle()
    learner = built(env, n_steps=10, batch_size=16, n_epochs=1)
    learner.train(env, 40, Hooks())
    assert learner.net.steps == 3


def test_predictions_take_arrays_of_this_side() -> None:
    env = oracle()
    learner = built(env)
    learner.train(env, 64, Hooks())
    plain = make_env("oracle_feature", num_envs=3, seed=1)
    seen, _ = plain.reset()
    for deterministic in (True, False):
        actions, memory = learner.predict(seen, None, np.ones(3, np.bool_), deterministic=deterministic)
        assert memory is None
        plain.step(actions)


def test_a_state_of_the_cpu_learner_is_refused() -> None:
    plain = make_env("oracle_feature", num_envs=4, seed=0)
    state = built(plain).get_state()
    with pytest.raises(CheckpointError, match="device"):
        built(oracle()).set_state(state)


def test_encoders_are_refused_there() -> None:
    with pytest.raises(EnvError, match="encoder"):
        built(oracle(), encoder="mlp")


def test_a_run_trains_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from alphaswarm_rl import RLExperimentSpec, RLRuntime, Settings
    from alphaswarm_rl.inference.builder import Builder
    from alphaswarm_rl.ledger import Ledger

    # As on a GPU, which is the one place where it is so by itself.
    monkeypatch.setattr(Builder, "trains_on_device", lambda self, *, recorded: not recorded)
    spec = RLExperimentSpec.from_data(
        {
            "name": "on a device",
            "env": {"class": "oracle_feature"},
            "agent": {"class": "ppo_inhouse", "kwargs": {"n_steps": 64, "batch_size": 64, "n_epochs": 1}},
            "training": {"total_timesteps": 4096, "n_envs": 8, "log_interval": 1},
            "evaluation": {"episodes": 4},
            "trajectory_store": {"enabled": False},
        }
    )
    settings = Settings(home=tmp_path)
    run = RLRuntime(spec, settings).train()
    assert run.status == "completed"
    with Ledger.open(settings) as ledger:
        rows = ledger.episodes(run.run_id)
        assert ledger.run(run.run_id).timesteps == 4096
    assert sum(row.count for row in rows if row.phase == "train") > 0
    assert all(row.last_episode - row.episode + 1 == row.count for row in rows)
    # Elsewhere it acts as it did there.
    assert np.isfinite(RLRuntime.from_run(run.run_id, settings).evaluate().metrics["mean_reward"])

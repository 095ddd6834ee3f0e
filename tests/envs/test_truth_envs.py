"""The environments of the truth suite keep the contract, on NumPy and on torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium.error import ResetNeeded
from torch._subclasses import FakeTensorMode

from alphaswarm_rl.arrays.counter_rng import uniform
from alphaswarm_rl.core.contracts import EnvRequest, State, Window
from alphaswarm_rl.core.errors import EnvError
from alphaswarm_rl.envs.truth.env import NOISE_STREAM
from alphaswarm_rl.envs.truth.env_torch import TorchTruthEnv
from alphaswarm_rl.envs.truth.merton_portfolio import MertonPortfolio
from alphaswarm_rl.envs.truth.noise_after_costs import NoiseAfterCosts
from alphaswarm_rl.envs.truth.oracle_feature import OracleFeature
from alphaswarm_rl.envs.truth.ou_signal import OuSignal
from alphaswarm_rl.envs.truth.regime_allocation import RegimeAllocation

from .contract import actions_for, check_vector_env, roll

TASKS = (OracleFeature, NoiseAfterCosts, MertonPortfolio, OuSignal, RegimeAllocation)
COMPILE = torch.compile

every_task = pytest.mark.parametrize("cls", TASKS, ids=lambda cls: cls.rl_alias)


def component(cls, horizon=128, **parameters):
    return cls(cls.Config(horizon=horizon, **parameters))


def build(cls, num_envs=4, seed=0, horizon=128, **request):
    return component(cls, horizon).build(EnvRequest(num_envs=num_envs, seed=seed, **request))


@every_task
def test_the_contract(cls):
    check_vector_env(component(cls, horizon=30).build, steps=70)


@every_task
def test_environment_0_of_1_is_environment_0_of_1000(cls):
    assert roll(build(cls, 1, seed=4, horizon=20), 50)[0] == roll(build(cls, 1000, seed=4, horizon=20), 50)[0]


@every_task
def test_episodes_are_truncated_at_the_horizon_and_never_terminate(cls):
    env = build(cls, 3, horizon=7)
    env.reset()
    for step, actions in enumerate(actions_for(env, 0, 21), start=1):
        _, _, terminated, truncated, infos = env.step(actions)
        assert not terminated.any()
        assert truncated.tolist() == [step % 7 == 0] * 3
        assert infos["cost"].shape == (3,)


@every_task
def test_a_state_goes_from_numpy_to_torch_and_back(cls):
    numpy_env, torch_env = build(cls, 4, seed=1, horizon=9), build(cls, 4, seed=8, horizon=9, backend="torch")
    numpy_env.reset()
    for actions in actions_for(numpy_env, 0, 13):
        numpy_env.step(actions)
    torch_env.set_state(numpy_env.get_state())
    other = build(cls, 4, seed=5, horizon=9)
    other.set_state(torch_env.get_state())
    for actions in actions_for(numpy_env, 1, 13):
        expected, found, back = numpy_env.step(actions), torch_env.step(torch.from_numpy(actions)), other.step(actions)
        np.testing.assert_allclose(found[0].numpy(), expected[0], rtol=1e-6, atol=1e-6)
        np.testing.assert_array_equal(back[0], expected[0])
        np.testing.assert_array_equal(back[1], expected[1])


@every_task
@pytest.mark.parametrize("phase", ["train", "evaluate"])
def test_torch_does_what_numpy_does(cls, phase):
    expected, found = build(cls, 16, 3, 11, phase=phase), build(cls, 16, 3, 11, phase=phase, backend="torch")
    np.testing.assert_allclose(found.reset()[0].numpy(), expected.reset()[0], rtol=1e-6, atol=1e-6)
    for actions in actions_for(expected, 0, 40):
        ours, theirs = found.step(torch.from_numpy(actions)), expected.step(actions)
        np.testing.assert_allclose(ours[0].numpy(), theirs[0], rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(ours[1].numpy(), theirs[1], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(ours[4]["cost"].numpy(), theirs[4]["cost"], rtol=1e-9, atol=1e-12)
        for flag in (2, 3):
            np.testing.assert_array_equal(ours[flag].numpy(), theirs[flag])
        ended = theirs[3]
        np.testing.assert_array_equal(ours[4]["_final_obs"].numpy(), ended)
        assert torch.isfinite(ours[4]["final_obs"]).all()
        if ended.any():
            final = ours[4]["final_obs"].numpy()[ended]
            np.testing.assert_allclose(final, theirs[4]["final_obs"][ended], rtol=1e-6, atol=1e-6)
        np.testing.assert_array_equal(found.episode_numbers.numpy(), expected.episode_numbers)
    assert expected.episode_numbers.min() == 3
    assert ours[0].dtype == torch.float32
    assert ours[1].dtype == torch.float64


@every_task
def test_nothing_in_a_step_waits_for_the_device(cls):
    """A fake tensor has no values: whatever looked at one, and so waited for the device, would fail."""
    env = build(cls, 3, horizon=2, backend="torch")
    env.reset()
    discrete = env.single_action_space.shape == ()
    actions = torch.ones(3, dtype=torch.int64) if discrete else torch.zeros(3, *env.single_action_space.shape)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        env._state = {name: mode.from_tensor(tensor) for name, tensor in env._state.items()}
        for _ in range(3):
            observation, rewards, *_, infos = env.step(mode.from_tensor(actions))
    assert observation.shape == infos["final_obs"].shape == (3, len(env.task.columns))
    assert rewards.shape == (3,)


@pytest.mark.parametrize("cls", [OracleFeature, RegimeAllocation], ids=lambda cls: cls.rl_alias)
def test_the_compiled_step_is_one_graph_with_the_same_numbers(cls, monkeypatch):
    graphs = []

    def count(graph, inputs, options):
        graphs.append(graph)
        return graph

    monkeypatch.setattr(torch, "compile", lambda graph, **kwargs: COMPILE(graph, backend=count, **kwargs))
    request, task = EnvRequest(num_envs=4, seed=0), component(cls, horizon=5)
    plain, compiled = TorchTruthEnv(request, task, compile=False), TorchTruthEnv(request, task, compile=True)
    assert torch.equal(plain.reset()[0], compiled.reset()[0])
    storage = torch.empty(4, len(task.columns))
    final = torch.empty_like(storage)
    for index, actions in enumerate(actions_for(build(cls, 4), 0, 13)):
        expected = plain.step(torch.from_numpy(actions))
        found = compiled.step(torch.from_numpy(actions), *((storage, final) if index % 2 else ()))
        for mine, theirs in zip(found[:4], expected[:4], strict=True):
            assert torch.equal(mine, theirs)
        assert torch.equal(found[4]["final_obs"], expected[4]["final_obs"])
        if index % 2:
            assert found[0] is storage
            assert found[4]["final_obs"] is final
    compiled.reset(seed=9)
    compiled.step(torch.from_numpy(actions))
    assert compiled.compiled
    assert len(graphs) == 1


def test_noise_is_of_the_counter_generator():
    env = build(OracleFeature, 3, seed=21, horizon=4)
    first, _ = env.reset()
    drawn = uniform(21, np.array([[0, 0], [1, 0], [2, 0]]), stream=NOISE_STREAM, count=10)
    np.testing.assert_array_equal(first[:, 0], (2.0 * drawn[:, 0] - 1.0).astype(np.float32))
    second = env.step(np.array([1, 1, 1]))[0]
    np.testing.assert_array_equal(second[:, 0], (2.0 * drawn[:, 2] - 1.0).astype(np.float32))


def test_normal_noise_is_normal_and_independent_of_itself():
    env = build(OuSignal, 2000, seed=2, horizon=60)
    env.reset()
    noise = env._noise.reshape(2, -1)
    count = noise.shape[1]
    assert np.abs(noise.mean(axis=1)).max() < 4 / np.sqrt(count)
    assert np.abs(noise.var(axis=1) - 1.0).max() < 4 * np.sqrt(2 / count)
    assert np.abs((noise**4).mean(axis=1) - 3.0).max() < 4 * np.sqrt(96 / count)
    assert abs((noise[0] * noise[1]).mean()) < 4 / np.sqrt(count)
    later = env._noise[:, 1:] * env._noise[:, :-1]
    assert np.abs(later.mean(axis=(1, 2))).max() < 4 / np.sqrt(count)


def test_oracle_pays_what_it_showed_less_costs():
    env = build(OracleFeature, 1, seed=5)
    shown, _ = env.reset()
    first, second = float(shown[0, 0]), None
    observation, rewards, *_, infos = env.step(np.array([2]))
    assert rewards[0] == pytest.approx(first - 0.2 - 0.1, abs=1e-6)
    assert infos["cost"][0] == pytest.approx(0.3)
    assert observation[0, 1] == 1.0
    second = float(observation[0, 0])
    observation, rewards, *_ = env.step(np.array([0]))
    assert rewards[0] == pytest.approx(-second - 0.4 - 0.1, abs=1e-6)
    third = env.step(np.array([1]))
    assert third[1][0] == pytest.approx(-0.2)


def test_noise_shows_past_returns_newest_first():
    env = build(NoiseAfterCosts, 1, seed=5)
    env.reset()
    seen, earned = [], []
    for _ in range(4):
        observation, rewards, *_ = env.step(np.array([2]))
        seen.append(float(observation[0, 0]))
        earned.append(float(rewards[0]))
    assert observation[0].tolist() == [*reversed(seen), 1.0]
    np.testing.assert_allclose(earned, np.array(seen) - [0.3, 0.1, 0.1, 0.1], atol=1e-6)


def test_a_step_of_merton_by_hand():
    task = component(MertonPortfolio)
    noise = [np.array([1.0]), np.array([0.0])]
    _, reward, _ = task.step(task.begin(noise, np), np.array([[1 / 3, -1 / 6]]), noise, np)
    # Weights 1 and -0.5; shocks 0.25 and 0.2 * 0.3; variance 0.0625 + 0.01 - 0.015.
    assert reward[0] == pytest.approx(0.02 + (0.08 + 0.25) - 0.5 * (0.05 + 0.06) - 0.5 * 0.0575)


def test_a_step_of_the_signal_by_hand():
    task = component(OuSignal)
    state = {"signal": np.array([2.0]), "position": np.array([1.5])}
    after, reward, cost = task.step(state, np.array([[-0.3]]), [np.array([1.0]), np.array([1.0])], np)
    # Position -1.5: earns -1.5 * (2 + 0.5) = -3.75, risks 1.125, trades 3 at 2 / 2 * 9.
    assert reward[0] == pytest.approx(0.1 * (-3.75 - 1.125 - 9.0))
    assert cost[0] == pytest.approx(0.9)
    assert after["signal"][0] == pytest.approx(0.9 * 2.0 + 0.19**0.5)


def test_a_step_of_the_regimes_by_hand():
    task = component(RegimeAllocation)
    state = {"regime": np.array([1.0, -1.0]), "weight": np.array([0.0, 1.0]), "return": np.zeros(2)}
    noise = [np.array([1.0, -1.0]), np.array([0.949, 0.921])]
    after, reward, _ = task.step(state, np.array([2, 1]), noise, np)
    np.testing.assert_allclose(reward, [0.45 - 0.045 - 0.05, 0.5 * -0.45 - 0.01125 - 0.025])
    assert after["regime"].tolist() == [1.0, 1.0], "the first stays, the second switches"


@every_task
def test_wrong_actions_are_refused_and_nothing_moves(cls):
    env = build(cls, 2)
    env.reset()
    before = env.get_state().arrays
    shape = env.single_action_space.shape
    wrong = (np.array([0, 3]), np.array([0.0, 1.0]), np.zeros(3, np.int64)) if shape == () else ()
    wrong = wrong or (
        np.full((2, *shape), np.nan, np.float32),
        np.zeros((3, *shape), np.float32),
        np.zeros(2, np.int64),
    )
    for actions in wrong:
        with pytest.raises(EnvError, match=cls.rl_alias):
            env.step(actions)
    for name, array in env.get_state().arrays.items():
        np.testing.assert_array_equal(array, before[name])


def test_torch_takes_unsound_numbers_as_it_says():
    oracle, merton = build(OracleFeature, 3, backend="torch"), build(MertonPortfolio, 2, backend="torch")
    oracle.reset()
    assert oracle.step(torch.tensor([-5, 1, 9]))[0][:, 1].tolist() == [-1.0, 0.0, 1.0]
    merton.reset()
    reward = merton.step(torch.tensor([[float("nan"), float("inf")], [0.0, 0.0]]))[1]
    np.testing.assert_allclose(reward.numpy(), [0.02, 0.02])
    for actions in (torch.zeros(3), torch.zeros(2, dtype=torch.int64), np.zeros(3, np.int64)):
        with pytest.raises(EnvError, match="oracle_feature"):
            oracle.step(actions)
    with pytest.raises(EnvError, match="storage"):
        oracle.step(torch.ones(3, dtype=torch.int64), torch.empty(3, 3))


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_what_it_does_not_offer_is_refused_with_the_remedy(backend):
    env = build(OuSignal, 1, backend=backend)
    with pytest.raises(ResetNeeded):
        env.step(torch.zeros(1, 1) if backend == "torch" else np.zeros((1, 1), np.float32))
    with pytest.raises(EnvError, match="options"):
        env.reset(options={"signal": 1})
    with pytest.raises(EnvError, match="has no dates"):
        build(OuSignal, 1, backend=backend, window=Window(start="2020-01-01"))
    with pytest.raises(EnvError, match="draws none"):
        build(OuSignal, 1, backend=backend, render=True)
    with pytest.raises(EnvError, match="shape"):
        env.set_state(build(OuSignal, 2).get_state())
    with pytest.raises(EnvError, match="Build the environment as it was built"):
        env.set_state(build(OracleFeature, 1).get_state())
    with pytest.raises(EnvError, match="cost"):
        env.set_state(component(OuSignal, cost=1.0).build(EnvRequest(num_envs=1, seed=0)).get_state())
    with pytest.raises(EnvError, match="missing"):
        env.set_state(State(data={"seed": 1, "identity": env.task.identity()}))


def test_a_device_that_torch_has_not_is_refused():
    with pytest.raises(EnvError, match="Use cpu"):
        build(OracleFeature, 1, backend="torch", device="cuda:77")

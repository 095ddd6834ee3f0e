"""The adapter from Gymnasium's batches to Stable-Baselines3's."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
from stable_baselines3 import PPO
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from alphaswarm_rl.agents.sb3.vec_env import as_sb3
from alphaswarm_rl.core.errors import EnvError

from ..worlds import CONTINUOUS, DICT, Hooks, MaskedWorld, World, learner_for, sync

SEED = 11


def short_cartpole():
    return gymnasium.make("CartPole-v1", max_episode_steps=13)


def small_ppo(env):
    return PPO("MlpPolicy", env, n_steps=64, batch_size=32, n_epochs=2, seed=SEED, device="cpu")


def test_a_rollout_buffer_equals_a_rollout_by_hand():
    """Plain environments, driven by the actions in the buffer, give its observations, rewards and episode starts."""
    model = small_ppo(as_sb3(sync(short_cartpole, 3)))
    weights = {name: tensor.clone() for name, tensor in model.policy.state_dict().items()}
    model.learn(64 * 3)
    buffer = model.rollout_buffer
    # `learn` updated the policy afterwards; the bootstrap used the one that played.
    model.policy.load_state_dict(weights)
    actions = buffer.actions.reshape(3, 64)  # the update flattened them, environment by environment
    observations = buffer.observations.reshape(3, 64, 4)
    rewards, starts = buffer.rewards.T, buffer.episode_starts.T
    truncations = 0
    for i in range(3):
        env = short_cartpole()
        observation, _ = env.reset(seed=SEED + i)
        started = True
        for t in range(64):
            assert np.array_equal(observations[i, t], observation)
            assert starts[i, t] == started
            observation, reward, terminated, truncated, _ = env.step(int(actions[i, t]))
            expected = np.float32(reward)
            if truncated and not terminated:
                truncations += 1
                with torch.no_grad():
                    value = model.policy.predict_values(model.policy.obs_to_tensor(observation)[0])[0]
                expected = (expected + model.gamma * value).numpy()[0]
            assert rewards[i, t] == expected
            started = terminated or truncated
            if started:
                observation, _ = env.reset()
    assert truncations > 0


def test_training_through_the_adapter_equals_bare_sb3():
    # One after the other: bare models share the global generators.
    ours = small_ppo(as_sb3(sync(short_cartpole, 3))).learn(400)
    bare = small_ppo(DummyVecEnv([lambda: Monitor(short_cartpole())] * 3)).learn(400)
    for name, tensor in bare.policy.state_dict().items():
        assert torch.equal(tensor, ours.policy.state_dict()[name])
    assert [(e["r"], e["l"]) for e in ours.ep_info_buffer] == [(e["r"], e["l"]) for e in bare.ep_info_buffer]


def test_the_learner_equals_bare_sb3():
    env = sync(short_cartpole, 3)
    env.reset(seed=SEED)
    learner = learner_for("ppo", env, SEED, n_steps=64, batch_size=32, n_epochs=2, net_arch=None)
    learner.train(env, 400, Hooks())
    bare_env = as_sb3(sync(short_cartpole, 3))
    bare = small_ppo(bare_env)
    bare_env.reset()  # the learner's environment is seeded by a first reset, and reset again by `train`
    bare.learn(400)
    for name, tensor in bare.policy.state_dict().items():
        assert torch.equal(tensor, learner.model.policy.state_dict()[name])


@pytest.mark.parametrize("space", [DICT, None], ids=["dict", "box"])
def test_ends_are_told(space):
    env = World(*([space] if space else []))
    adapter = as_sb3(env)
    adapter.reset()
    total, length = np.zeros(2), np.zeros(2, int)
    kinds = set()
    for _ in range(60):
        _, rewards, dones, infos = adapter.step(np.array([1, 2]))
        total += [-1, -2]
        length += 1
        assert rewards.dtype == np.float32
        assert len({id(info) for info in infos}) == 2
        for i in range(2):
            assert bool(infos[i]) == dones[i]
            if dones[i]:
                assert infos[i]["episode"] == {"r": total[i], "l": length[i], "t": 0.0}
                final = infos[i]["terminal_observation"]
                assert final.keys() == {"a", "b"} if space else final.shape == (3,)
                kinds.add(infos[i]["TimeLimit.truncated"])
                total[i] = length[i] = 0
    assert kinds == {True, False}


def test_gymnasiums_own_dict_batches_are_read():
    class Dicts(gymnasium.Env):
        observation_space = DICT
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            self.time = 0
            return self.observe(), {}

        def observe(self):
            return {"a": np.full(3, self.time / 10, np.float32), "b": self.time}

        def step(self, action):
            self.time += 1
            return self.observe(), 1.0, False, self.time == 3, {}

    adapter = as_sb3(sync(Dicts, 2))
    adapter.reset()
    for _ in range(3):
        observation, _, dones, infos = adapter.step(np.array([0, 1]))
    assert dones.all()
    assert infos[1]["terminal_observation"]["b"] == 3
    assert infos[1]["terminal_observation"].keys() == {"a", "b"}
    assert observation["b"].tolist() == [0, 0]


def test_rewards_are_a_copy():
    class Keeps(World):
        def step(self, actions):
            result = super().step(actions)
            self.rewards = result[1]
            return result

    env = Keeps()
    adapter = as_sb3(env)
    adapter.reset()
    rewards = adapter.step(np.array([1, 1]))[1]
    rewards += 100
    assert env.rewards.tolist() == [-1, -1]


def test_an_environment_that_uses_its_buffer_again_is_copied():
    adapter = as_sb3(sync(short_cartpole, 2, copy=False))
    first = adapter.reset()
    kept = first.copy()
    second = adapter.step(np.array([0, 1]))[0]
    adapter.step(np.array([0, 1]))
    assert np.array_equal(first, kept)
    assert not np.array_equal(first, second)


def test_masks_reach_sb3():
    adapter = as_sb3(MaskedWorld())
    adapter.reset()
    assert is_masking_supported(adapter)
    assert get_action_masks(adapter).shape == (2, 3)
    assert not is_masking_supported(as_sb3(World()))


def test_continuous_actions_arrive_inside_the_space():
    env = World(action_space=CONTINUOUS)
    learner = learner_for("ppo", env)
    with torch.no_grad():
        learner.model.policy.log_std.fill_(3.0)
    learner.train(env, 32, Hooks())
    actions = np.stack(env.actions)
    assert actions.min() == -2
    assert actions.max() == 2


def test_seeds_options_and_attributes_pass():
    class Remembers(World):
        def reset(self, *, seed=None, options=None):
            self.heard = seed, options
            return super().reset()

    env = Remembers()
    adapter = as_sb3(env)
    adapter.seed(5)
    adapter.set_options({"a": 1})
    adapter.reset()
    assert env.heard == (5, {"a": 1})
    adapter.reset()
    assert env.heard == (None, None)
    assert adapter.get_attr("resets") == [2, 2]
    adapter.set_attr("resets", 7)
    assert env.resets == 7
    with pytest.raises(EnvError, match="one batch"):
        adapter.set_attr("resets", 7, indices=[0])
    assert adapter.env_is_wrapped(Monitor) == [False, False]


def test_another_autoreset_mode_is_refused():
    with pytest.raises(EnvError, match="NEXT_STEP"):
        as_sb3(SyncVectorEnv([short_cartpole], autoreset_mode=AutoresetMode.NEXT_STEP))

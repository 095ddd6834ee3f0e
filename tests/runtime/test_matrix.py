"""One short training and evaluation of every environment, every algorithm and every kind of policy."""

import gymnasium as gym
import numpy as np
import pytest

from alphaswarm_rl.runtime import RLRuntime
from tests.runtime.conftest import tiny


class Toy(gym.Env):
    """Six steps; the observation is whatever the space says."""

    def __init__(self, space, actions, masked=False):
        self.observation_space, self.action_space, self._left = space, actions, 0
        self._masked = masked
        if masked:
            self.action_masks = lambda: np.array([True] + [False] * (actions.n - 1))

    def _observe(self):
        self.observation_space.seed(self._left)
        return self.observation_space.sample()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._left = 6
        return self._observe(), {}

    def step(self, action):
        if self._masked and action != 0:
            raise AssertionError(f"a masked action was taken: {action}")
        self._left -= 1
        return self._observe(), 1.0, self._left == 0, False, {}


IMAGE = gym.spaces.Box(0, 255, (36, 36, 3), np.uint8)
VECTOR = gym.spaces.Box(-1, 1, (3,), np.float32)
TOYS = {
    "ToyImage-v0": (IMAGE, gym.spaces.Discrete(2)),
    "ToyImageBox-v0": (IMAGE, gym.spaces.Box(-1, 1, (2,), np.float32)),
    "ToyDict-v0": (
        gym.spaces.Dict(picture=IMAGE, numbers=VECTOR, choice=gym.spaces.Discrete(3)),
        gym.spaces.Discrete(2),
    ),
    "ToyDiscrete-v0": (VECTOR, gym.spaces.Discrete(3)),
    "ToyBox-v0": (VECTOR, gym.spaces.Box(-1, 1, (2,), np.float32)),
    "ToyMulti-v0": (VECTOR, gym.spaces.MultiDiscrete([2, 3])),
}


@pytest.fixture(scope="module", autouse=True)
def _toys():
    for name, (space, actions) in TOYS.items():
        gym.register(name, lambda space=space, actions=actions, **_: Toy(space, actions))
    gym.register("ToyMasked-v0", lambda **_: Toy(VECTOR, gym.spaces.Discrete(3), masked=True))
    yield
    for name in (*TOYS, "ToyMasked-v0"):
        del gym.registry[name]


def run(settings, env_id, agent, **training):
    spec = tiny(
        env={"class": "gymnasium", "kwargs": {"id": env_id, "max_episode_steps": 40}},
        agent=agent,
        training={"total_timesteps": 64, "n_envs": 2, **training},
        evaluation={"episodes": 2},
    )
    result = RLRuntime(spec, settings).train()
    assert result.status == "completed"
    assert result.timesteps >= 64
    assert np.isfinite(result.metrics["mean_reward"])
    again = RLRuntime.from_run(result.run_id, settings).evaluate()
    assert again.metrics == result.metrics
    return result


ON = {"n_steps": 16, "net_arch": [8]}
OFF = {"learning_starts": 16, "buffer_size": 500, "batch_size": 8, "net_arch": [8]}
PPO = {"class": "ppo", "kwargs": {**ON, "batch_size": 16, "n_epochs": 1}}
SAC = {"class": "sac", "kwargs": OFF}


@pytest.mark.parametrize("env_id", ["CartPole-v1", "LunarLander-v2", "forex-v0", "stocks-v0"])
def test_every_named_environment_with_discrete_actions(settings, env_id):
    result = run(settings, env_id, PPO)
    assert any("LunarLander-v3 is used" in notice for notice in result.notices) == (env_id == "LunarLander-v2")


@pytest.mark.parametrize("agent", [PPO, SAC], ids=["ppo", "sac"])
def test_ant(settings, agent):
    run(settings, "Ant-v4", agent)


@pytest.mark.parametrize(
    ("env_id", "agent"),
    [
        ("ToyDiscrete-v0", {"class": "a2c", "kwargs": ON}),
        ("ToyDiscrete-v0", {"class": "dqn", "kwargs": OFF}),
        ("ToyBox-v0", {"class": "sac", "kwargs": OFF}),
        ("ToyBox-v0", {"class": "td3", "kwargs": OFF}),
        ("ToyBox-v0", {"class": "ddpg", "kwargs": OFF}),
        ("ToyDiscrete-v0", {"class": "recurrent_ppo", "kwargs": {**ON, "batch_size": 16, "n_epochs": 1}}),
        ("ToyDiscrete-v0", {"class": "trpo", "kwargs": {**ON, "batch_size": 16}}),
        ("ToyDiscrete-v0", {"class": "qrdqn", "kwargs": OFF}),
        ("ToyMasked-v0", {"class": "maskable_ppo", "kwargs": {**ON, "batch_size": 16, "n_epochs": 1}}),
        ("ToyBox-v0", {"class": "tqc", "kwargs": OFF}),
        ("ToyBox-v0", {"class": "ars", "kwargs": {"n_delta": 2, "net_arch": [8]}}),
        ("ToyMulti-v0", PPO),
        ("ToyDiscrete-v0", {"class": "random"}),
        ("ToyBox-v0", {"class": "constant", "kwargs": {"action": [0.5, -0.5]}}),
    ],
    ids=lambda value: value if isinstance(value, str) else value["class"],
)
def test_every_algorithm(settings, env_id, agent):
    run(settings, env_id, agent)


def with_policy(agent, policy_type, **kwargs):
    return {"class": agent["class"], "kwargs": {**agent["kwargs"], "policy_type": policy_type, **kwargs}}


@pytest.mark.parametrize(
    ("env_id", "agent"),
    [
        ("ToyImage-v0", with_policy(PPO, "CnnPolicy")),
        ("ToyImage-v0", with_policy(PPO, "CnnPolicy", encoder="cnn", embed_dim=8)),
        ("ToyImageBox-v0", with_policy(SAC, "CnnPolicy")),
        ("ToyDict-v0", with_policy(PPO, "MultiInputPolicy")),
        ("ToyDict-v0", with_policy({"class": "dqn", "kwargs": OFF}, "MultiInputPolicy")),
    ],
    ids=["ppo-cnn", "ppo-cnn-encoder", "sac-cnn", "ppo-dict", "dqn-dict"],
)
def test_every_kind_of_policy(settings, env_id, agent):
    run(settings, env_id, agent)


def test_a_dict_observation_is_preprocessed_where_it_is_made_of_numbers(settings):
    spec = tiny(
        env={"class": "gymnasium", "kwargs": {"id": "ToyDict-v0"}},
        obs={"normalize": "running", "clip_range": 5},
        agent=with_policy(PPO, "MultiInputPolicy"),
        training={"total_timesteps": 64, "n_envs": 2},
    )
    assert RLRuntime(spec, settings).train().status == "completed"

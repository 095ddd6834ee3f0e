"""What is refused, and how the agents are named."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from gymnasium import spaces

from alphaswarm_rl.agents.sb3.algorithms import algorithms
from alphaswarm_rl.core import catalogue
from alphaswarm_rl.core.contracts import AgentRequest
from alphaswarm_rl.core.errors import ComponentError
from alphaswarm_rl.core.refs import build_from_config, reference

from ..worlds import CONTINUOUS, DICT, IMAGE, World, learner_for


@pytest.mark.parametrize(
    ("alias", "action_space", "fits"),
    [
        ("dqn", CONTINUOUS, "a2c, a2c_inhouse, ars, ddpg, ppo, ppo_inhouse, recurrent_ppo, sac, td3, tqc, trpo"),
        (
            "sac",
            spaces.Discrete(2),
            "a2c, a2c_inhouse, ars, ddqn_inhouse, dqn, maskable_ppo, ppo, ppo_inhouse, qrdqn, recurrent_ppo, trpo",
        ),
        ("maskable_ppo", CONTINUOUS, "a2c, a2c_inhouse, ars, ddpg, ppo, ppo_inhouse"),
        ("ars", spaces.MultiDiscrete([2, 2]), "a2c, a2c_inhouse, maskable_ppo, ppo, ppo_inhouse, recurrent_ppo, trpo"),
        ("ppo", spaces.Tuple([spaces.Discrete(2)]), "No agent"),
    ],
)
def test_an_action_space_that_does_not_fit(alias, action_space, fits):
    with pytest.raises(ComponentError, match=fits):
        learner_for(alias, World(action_space=action_space))


@pytest.mark.parametrize(
    ("alias", "world", "kwargs", "why"),
    [
        ("ppo", {"action_space": spaces.Box(-np.inf, np.inf, (2,))}, {}, "unbounded"),
        ("ppo", {"action_space": spaces.Discrete(3, start=1)}, {}, "start at 0"),
        ("ppo", {"action_space": spaces.MultiBinary([2, 2])}, {}, "more than one dimension"),
        ("ppo", {"observation_space": DICT}, {}, "Set policy_type to MultiInputPolicy"),
        ("ars", {"observation_space": DICT}, {}, "Use an algorithm with MultiInputPolicy"),
        ("ppo", {}, {"policy_type": "MultiInputPolicy"}, "Set policy_type to MlpPolicy"),
        ("ppo", {}, {"policy_type": "CnnPolicy"}, "needs pictures"),
        ("ppo", {}, {"encoder": "cnn"}, "needs pictures"),
        ("ppo", {"observation_space": spaces.Box(0, 255, (20, 40, 3), np.uint8)}, {"encoder": "cnn"}, "20 by 40"),
        ("ppo", {"observation_space": spaces.Tuple([DICT])}, {}, "cannot observe Tuple"),
        ("ppo", {"num_envs": 1}, {"n_steps": 1}, "cannot be normalised"),
        ("ppo", {}, {"use_sde": True}, "continuous actions only"),
        ("dqn", {"observation_space": DICT}, {"policy_type": "MultiInputPolicy", "n_steps": 2}, "n-step"),
        ("maskable_ppo", {}, {}, "no action_masks"),
    ],
)
def test_an_environment_that_does_not_fit(alias, world, kwargs, why):
    with pytest.raises(ComponentError, match=why):
        learner_for(alias, World(**world), **kwargs)


@pytest.mark.parametrize(
    ("alias", "kwargs", "why"),
    [
        ("ppo", {"encoder": "transfomer"}, "Did you mean 'transformer'.*'mlp' and 'cnn'"),
        ("ppo", {"encoder": {"class": "transformer", "kwargs": {"heds": 2}}}, "unknown key 'heds'"),
        ("ppo", {"encoder": "transformer", "policy_type": "CnnPolicy"}, "contradiction"),
        ("ppo", {"encoder": "recurrent", "policy_type": "MultiInputPolicy"}, "contradiction"),
        ("ppo", {"encoder": {"class": "recurrent", "kwargs": {"features_dim": 3}}, "embed_dim": 4}, "embed_dim"),
        ("ppo", {"embed_dim": 32}, "no effect without an encoder"),
        ("ppo", {"policy_type": "CnnPolicy", "encoder": "mlp"}, "contradiction"),
        ("ppo", {"batch_size": 1}, "at least 2"),
        ("ppo", {"sde_sample_freq": 4}, "no effect without use_sde"),
        ("ppo", {"learning_rate": 0}, "greater than 0"),
        ("ppo", {"net_arch": {"pi": [8], "qf": [8]}}, "net_arch"),
        ("ppo", {"clip_rnge": 0.1}, "clip_range"),
        ("a2c", {"use_rms_prop": False, "rms_prop_eps": 0.1}, "no effect without use_rms_prop"),
        ("recurrent_ppo", {"shared_lstm": True}, "enable_critic_lstm"),
        ("sac", {"ent_coef": "automatic"}, "ent_coef"),
        ("sac", {"ent_coef": 0.1, "target_entropy": -1}, "learnt ent_coef"),
        ("sac", {"use_sde_at_warmup": True}, "no effect without use_sde"),
        ("td3", {"action_noise_std": 0.5}, "no effect without action_noise"),
        ("tqc", {"n_quantiles": 2}, "below n_quantiles"),
        ("ars", {"policy_type": "CnnPolicy"}, "policy_type"),
        ("ars", {"gamma": 0.9}, "unknown key"),
        ("ars", {"n_top": 9}, "larger than n_delta"),
    ],
)
def test_parameters_that_cannot_be(alias, kwargs, why):
    with pytest.raises(ComponentError, match=why):
        build_from_config({"class": alias, "kwargs": kwargs}, kind="agent")


def test_numbers_in_text_are_numbers():
    _, config = catalogue.configure("agent", "ppo", {"learning_rate": "3e-4"})
    assert config.learning_rate == 3e-4
    _, config = catalogue.configure("agent", "sac", {"ent_coef": "0.1"})
    assert config.ent_coef == 0.1
    _, config = catalogue.configure("agent", "sac", {"ent_coef": "auto_0.1"})
    assert config.ent_coef == "auto_0.1"


@pytest.mark.parametrize("alias", sorted(algorithms()))
def test_names_and_the_adapter_spelling(alias):
    plain = reference({"class": alias, "kwargs": {"learning_rate": 0.5}}, "agent")
    for name in (alias, algorithms()[alias].__name__):
        spelt = {"class": "SB3Adapter", "kwargs": {"algorithm": name, "learning_rate": 0.5}}
        assert reference(spelt, "agent") == plain
    assert reference(plain.model_dump(), "agent") == plain
    description = catalogue.describe(algorithms()[alias])
    assert description.category == "sb3"
    assert description.source in ("stable-baselines3", "sb3-contrib")
    assert {"on-policy", "off-policy"} & set(description.tags)
    assert all(field.description for field in algorithms()[alias].Config.model_fields.values())


def test_the_adapter_spelling_needs_an_algorithm_that_exists():
    with pytest.raises(ComponentError, match="Did you mean 'recurrent_ppo'"):
        reference({"class": "SB3Adapter", "kwargs": {"algorithm": "recurent_ppo"}}, "agent")
    with pytest.raises(ComponentError, match="which algorithm"):
        reference({"class": "sb3adapter"}, "agent")


def test_a_device_that_is_not_there():
    agent = build_from_config({"class": "ppo"}, kind="agent")
    with pytest.raises(ComponentError, match="does not have it"):
        agent.build(AgentRequest.for_env(World(), 0, device="cuda:99"))
    with pytest.raises(ComponentError, match="knows no such device"):
        agent.build(AgentRequest.for_env(World(), 0, device="abacus"))


def test_images_may_have_their_channels_first():
    first = spaces.Box(0, 255, (1, 36, 36), np.uint8)
    for space in (first, IMAGE):
        assert learner_for("ppo", World(space), policy_type="CnnPolicy").model.observation_space.shape == (1, 36, 36)


def test_the_components_are_light():
    code = (
        "import sys, alphaswarm_rl.agents.sb3.algorithms, alphaswarm_rl.agents.policy_agent, "
        "alphaswarm_rl.policies.baselines; "
        "heavy = {'torch', 'stable_baselines3', 'sb3_contrib', 'pandas'} & set(sys.modules); assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

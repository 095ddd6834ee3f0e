"""Every parameter of every algorithm reaches the model."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from stable_baselines3.common.noise import NormalActionNoise, OrnsteinUhlenbeckActionNoise

from alphaswarm_rl.agents.sb3.algorithms import algorithms

from ..worlds import CONTINUOUS, IMAGE, SMALL, World, learner_for, world_for

#: What a parameter needs beside itself.
NEEDS = {
    "sde_sample_freq": {"use_sde": True},
    "use_sde_at_warmup": {"use_sde": True},
    "target_entropy": {"ent_coef": "auto"},
    "action_noise_std": {"action_noise": "normal"},
    "embed_dim": {"encoder": "mlp"},
    "top_quantiles_to_drop_per_net": {"n_quantiles": 25},
    "shared_lstm": {"enable_critic_lstm": False},
}
#: Values that are not the default, where the rule below has none.
VALUES: dict[str, Any] = {
    "policy_type": "CnnPolicy",
    "batch_size": 4,
    "net_arch": [5],
    "encoder": "mlp",
    "activation": "tanh",
    "lr_schedule": "linear",
    "action_noise": "ornstein_uhlenbeck",
    "clip_range_vf": 0.3,
    "target_kl": 0.5,
    "n_top": 1,
    "max_grad_norm": 0.7,
    "ent_coef": 0.3,
    "target_entropy": -0.7,
    "sde_sample_freq": 3,
    "line_search_shrinking_factor": 0.6,
    "n_quantiles": 7,
    "gradient_steps": 2,
}


def changed(name: str, default: Any) -> Any:
    if name in VALUES:
        return VALUES[name]
    if isinstance(default, bool):
        return not default
    return default + 3 if isinstance(default, int) else default * 0.5 if default else 0.25


CASES = [
    pytest.param(alias, name, id=f"{alias}-{name}")
    for alias, agent in sorted(algorithms().items())
    for name in agent.Config.model_fields
    if (alias, name) != ("ars", "policy_type")  # one value only
]


def effect(model: Any, name: str) -> Any:
    """Where a parameter shows in a built model."""
    if name == "policy_type":
        return {type(module).__name__ for module in model.policy.modules()}
    if name in ("net_arch", "encoder", "embed_dim"):
        return sorted((key, tuple(tensor.shape)) for key, tensor in model.policy.state_dict().items())
    if name in ("n_critics", "n_quantiles", "lstm_hidden_size", "n_lstm_layers", "shared_lstm", "enable_critic_lstm"):
        return sorted((key, tuple(tensor.shape)) for key, tensor in model.policy.state_dict().items())
    if name == "activation":
        return model.policy.activation_fn
    if name == "learning_rate":
        return model.lr_schedule(1.0)
    if name == "lr_schedule":
        return model.lr_schedule(0.5)
    if name in ("clip_range", "clip_range_vf"):
        schedule = getattr(model, name)
        return None if schedule is None else schedule(1.0)
    if name == "delta_std":
        return model.delta_std_schedule(1.0)
    if name == "action_noise":
        return type(model.action_noise)
    if name == "action_noise_std":
        return model.action_noise._sigma.tolist()
    if name in ("use_rms_prop", "rms_prop_eps"):
        return type(model.policy.optimizer), model.policy.optimizer.defaults["eps"]
    if name == "zero_policy":
        return bool((model.weights == 0).all())
    if name == "train_freq":
        return model.train_freq.frequency
    if name.startswith("exploration_"):
        return [model.exploration_schedule(progress) for progress in (1.0, 0.999, 0.97, 0.0)]
    if name == "ent_coef" and hasattr(model, "ent_coef_tensor"):
        return getattr(model, "ent_coef_tensor", None)
    return getattr(model, name)


@pytest.mark.filterwarnings("ignore:You have specified a mini-batch size")
@pytest.mark.parametrize(("alias", "name"), CASES)
def test_a_parameter_takes_effect(alias, name):
    default = algorithms()[alias].Config.model_fields[name].default
    value = changed(name, default)
    if name == "activation" and alias in ("dqn", "qrdqn", "sac", "td3", "ddpg", "tqc", "ars"):
        value = "tanh"  # theirs is relu
    elif name == "activation":
        value = "relu"
    space = {"observation_space": IMAGE} if name == "policy_type" else {}
    needs = NEEDS.get(name, {})
    if name == "batch_size" and alias in ("ppo", "trpo", "recurrent_ppo", "maskable_ppo"):
        needs = {"n_steps": 64}  # the default batch is larger than a small rollout
    env = world_for(alias, **space)
    if "use_sde" in (name, *needs):
        env = World(action_space=CONTINUOUS)
    base = {key: default for key, default in SMALL[alias].items() if key != name} | needs
    plain, other = learner_for(alias, env, **{name: default} | base), learner_for(alias, env, **{name: value} | base)
    before, after = effect(plain.model, name), effect(other.model, name)
    assert before != after
    if isinstance(value, int | float) and isinstance(after, int | float):
        assert after in (value, pytest.approx(value)) or name == "zero_policy"


def test_layers_of_the_two_networks():
    policy = learner_for("ppo", world_for("ppo"), net_arch={"pi": [5], "vf": [6, 7]}).model.policy
    assert [layer.out_features for layer in policy.mlp_extractor.policy_net if hasattr(layer, "out_features")] == [5]
    assert [layer.out_features for layer in policy.mlp_extractor.value_net if hasattr(layer, "out_features")] == [6, 7]
    model = learner_for("sac", world_for("sac"), net_arch={"pi": [5], "qf": [6]}).model
    assert model.actor.latent_pi[0].out_features == 5
    assert model.critic.qf0[0].out_features == 6


def test_encoders():
    mlp = learner_for("ppo", world_for("ppo"), encoder="mlp", embed_dim=9).model.policy.features_extractor
    assert type(mlp).__name__ == "MlpEncoder"
    assert mlp(torch.zeros(2, 3)).shape == (2, 9)
    assert (mlp(torch.randn(50, 3)) >= 0).all()
    cnn = learner_for("ppo", world_for("ppo", IMAGE), encoder="cnn", embed_dim=9).model.policy.features_extractor
    assert type(cnn).__name__ == "NatureCNN"
    assert cnn.features_dim == 9


def test_action_noise_kinds():
    noises = {"normal": NormalActionNoise, "ornstein_uhlenbeck": OrnsteinUhlenbeckActionNoise}
    for name, kind in noises.items():
        noise = learner_for("td3", world_for("td3"), action_noise=name, action_noise_std=0.4).model.action_noise
        assert isinstance(noise, kind)
        assert noise._sigma.tolist() == [0.4, 0.4]


def test_the_recurrent_policies_are_the_lstm_ones():
    assert (
        type(learner_for("recurrent_ppo", world_for("recurrent_ppo")).model.policy).__name__
        == "RecurrentActorCriticPolicy"
    )


def test_defaults_are_sb3s():
    import inspect
    from importlib import import_module

    for alias, agent in algorithms().items():
        module = "stable_baselines3" if agent.rl_source == "stable-baselines3" else "sb3_contrib"
        signature = inspect.signature(getattr(import_module(module), agent.__name__)).parameters
        for name, field in agent.Config.model_fields.items():
            if name in signature and name != "action_noise":
                assert field.default == signature[name].default, (alias, name)

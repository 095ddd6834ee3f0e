"""Backbones as feature extractors of every Stable-Baselines3 agent."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from gymnasium import spaces

from alphaswarm_rl.core.contracts import AgentRequest, EncoderRequest, State
from alphaswarm_rl.core.errors import ComponentError
from alphaswarm_rl.core.kinds import TimeSeriesEncoder
from alphaswarm_rl.core.refs import build_from_config, reference
from alphaswarm_rl.envs.observation_transform import ObservationSettings
from alphaswarm_rl.envs.preprocessing import PreprocessedEnv
from alphaswarm_rl.policies.backbones.files import save_backbone

from ..worlds import SMALL, Hooks, World, learner_for, same_state, world_for

WINDOW = spaces.Box(-1, 1, (6, 2), np.float32)
TINY = {
    "transformer": {"d_model": 8, "heads": 2, "layers": 1, "d_ff": 8},
    "recurrent": {"hidden": 8, "layers": 1},
    "autoencoder": {"hidden": [8]},
    "patch_tst": {"patch": 3, "stride": 2, "d_model": 8, "heads": 2, "layers": 1, "d_ff": 8},
}
AGENTS = [alias for alias in SMALL if alias != "ars"]


def encoder(alias, **kwargs):
    return {"class": alias, "kwargs": TINY[alias] | kwargs}


def learner(agent, alias, env=None, seed=0, **kwargs):
    env = env or world_for(agent, WINDOW)
    return learner_for(agent, env, seed, encoder=encoder(alias, **kwargs), embed_dim=5)


def through_json(state):
    return State(dict(state.arrays), json.loads(json.dumps(state.data)))


def weights(learner):
    return {name: tensor.clone() for name, tensor in learner.model.policy.state_dict().items() if "encoder." in name}


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("alias", TINY)
def test_every_agent_trains_every_backbone_saves_and_loads_it(agent, alias):
    env = world_for(agent, WINDOW)
    first = learner(agent, alias, env)
    before = weights(first)
    assert before
    first.train(env, 300 if (agent, alias) == ("ppo", "transformer") else 64, Hooks())
    after = weights(first)
    trained = {name for name, parameter in first.model.policy.named_parameters() if "encoder." in name}
    assert trained
    moved = {name for name in after if not torch.equal(before[name], after[name])}
    assert trained <= moved
    other = learner(agent, alias, seed=9)
    other.set_state(through_json(first.get_state()))
    assert same_state(other.get_state(), first.get_state())
    observation, starts = np.linspace(-1, 1, 48, dtype=np.float32).reshape(4, 6, 2), np.ones(4, bool)
    actions = [each.predict(observation, None, starts, deterministic=True)[0] for each in (first, other)]
    assert np.array_equal(*actions)


def test_one_seed_gives_one_training():
    states = []
    for seed in (3, 3, 4):
        env = world_for("ppo", WINDOW)
        one = learner("ppo", "transformer", env, seed)
        one.train(env, 64, Hooks())
        states.append(one.get_state())
    assert same_state(states[0], states[1])
    assert not same_state(states[0], states[2])


def test_the_policys_own_initialisation_leaves_the_backbone_alone():
    extractor = learner("ppo", "transformer").model.policy.features_extractor
    layer = extractor.encoder.backbone.head  # orthogonal weights with zero biases otherwise
    assert (layer.bias != 0).any()


def test_an_alias_is_short_for_the_reference_and_its_version_counts():
    kinds = [
        reference({"class": "ppo", "kwargs": {"encoder": each}}, "agent")
        for each in ("recurrent", {"class": "RecurrentBackbone"})
    ]
    assert kinds[0] == kinds[1]
    assert kinds[0].canonical_form() == kinds[1].canonical_form()
    assert kinds[0].kwargs["encoder"]["class"] == "recurrent"
    assert reference(kinds[0].model_dump(), "agent", stored=True) == kinds[0]
    plain = reference({"class": "ppo", "kwargs": {"encoder": "mlp"}}, "agent")
    assert plain.kwargs["encoder"] == "mlp"


def test_a_width_of_the_backbones_own_goes_before_embed_dim():
    env = world_for("ppo", WINDOW)
    assert learner_for("ppo", env, encoder=encoder("recurrent", features_dim=7)).model.policy.features_dim == 7
    assert learner_for("ppo", env, encoder=encoder("recurrent")).model.policy.features_dim == 64


def test_a_flat_observation_needs_a_length_that_divides_it():
    env = World(spaces.Box(-1, 1, (12,), np.float32))
    with pytest.raises(ComponentError, match="nobody says how many steps"):
        learner("ppo", "recurrent", env)
    with pytest.raises(ComponentError, match="cannot be cut into 5"):
        learner("ppo", "recurrent", env, length=5)
    extractor = learner("ppo", "recurrent", env, length=4).model.policy.features_extractor
    assert (extractor.encoder.length, extractor.encoder.features) == (4, 3)


def test_stacked_frames_are_steps():
    raw = World(spaces.Box(-1, 1, (3,), np.float32))
    env = PreprocessedEnv(raw, ObservationSettings(stack_frames=4))
    extractor = learner("ppo", "recurrent", env).model.policy.features_extractor
    assert (extractor.encoder.length, extractor.encoder.features) == (4, 3)
    two_dimensional = PreprocessedEnv(World(WINDOW), ObservationSettings(stack_frames=2))
    extractor = learner("ppo", "recurrent", two_dimensional).model.policy.features_extractor
    assert (extractor.encoder.length, extractor.encoder.features) == (6, 4)


@pytest.mark.parametrize("agent", ["ppo", "trpo", "sac", "dqn", "recurrent_ppo"])
@pytest.mark.parametrize("alias", ["transformer", "recurrent"])
def test_a_trunk_from_a_file_stays_as_it_is_when_frozen_and_learns_when_not(agent, alias, tmp_path):
    component = build_from_config(encoder(alias, features_dim=5), kind="policy_backbone")
    trunk = component.build(EncoderRequest(2, 6, seed=77))
    save_backbone(tmp_path / "trunk", trunk)
    for frozen in (True, False):
        env = world_for(agent, WINDOW)
        one = learner(agent, alias, env, weights=str(tmp_path / "trunk"), frozen=frozen)
        extractors = [each for each in one.model.policy.modules() if type(each).__name__ == "BackboneExtractor"]
        assert extractors
        for extractor in extractors:
            assert all(
                torch.equal(t, trunk.state_dict()[n]) for n, t in extractor.encoder.backbone.state_dict().items()
            )
        one.train(env, 64, Hooks())
        trained = extractors[0].encoder.backbone.state_dict()
        assert all(torch.equal(tensor, trunk.state_dict()[name]) for name, tensor in trained.items()) is frozen


def test_a_checkpoint_needs_the_trunks_file_no_more(tmp_path):
    component = build_from_config(encoder("transformer"), kind="policy_backbone")
    save_backbone(tmp_path / "trunk", component.build(EncoderRequest(2, 6, 5)))
    env = world_for("ppo", WINDOW)
    trained = learner("ppo", "transformer", env, weights=str(tmp_path / "trunk"), frozen=True)
    trained.train(env, 64, Hooks())
    (tmp_path / "trunk").unlink()
    kwargs = SMALL["ppo"] | {
        "encoder": encoder("transformer", weights=str(tmp_path / "trunk"), frozen=True),
        "embed_dim": 5,
    }
    agent = build_from_config({"class": "ppo", "kwargs": kwargs}, kind="agent")
    judged = agent.build(AgentRequest.for_env(env, 5, training=False))
    judged.set_state(trained.get_state())
    assert same_state(judged.get_state(), trained.get_state())


@pytest.mark.parametrize("agent", ["ppo", "dqn", "sac", "a2c"])
def test_a_reconstruction_loss_trains_the_decoder(agent):
    env = world_for(agent, WINDOW)
    one = learner(agent, "autoencoder", env, reconstruction_weight=1.0)
    before = weights(one)
    one.train(env, 100, Hooks())
    decoders = [name for name in before if "decoder" in name and "target" not in name]
    assert decoders
    assert not any(torch.equal(before[name], weights(one)[name]) for name in decoders)


def test_trpo_has_no_room_for_a_reconstruction_loss():
    with pytest.raises(ComponentError, match="natural gradient"):
        learner("trpo", "autoencoder", reconstruction_weight=1.0)


class Mean(TimeSeriesEncoder):
    """A backbone of a plug-in: a layer on the mean of the window."""

    rl_alias = "test_mean"

    def build(self, request):
        class Network(torch.nn.Module):
            features_dim = request.features_dim

            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(request.features, request.features_dim)

            def forward(self, x):
                return self.layer(x.mean(1))

        return Network()


def test_a_backbone_of_a_plugin_is_an_encoder_by_its_alias():
    env = world_for("ppo", WINDOW)
    one = learner_for("ppo", env, encoder="test_mean", embed_dim=5)
    before = weights(one)
    one.train(env, 64, Hooks())
    assert before["features_extractor.encoder.backbone.layer.weight"].shape == (5, 2)
    assert not torch.equal(
        *(each["features_extractor.encoder.backbone.layer.weight"] for each in (before, weights(one)))
    )


def test_the_option_names_a_backbone_and_a_run_of_it_is_trained_judged_and_served(settings):
    from alphaswarm_rl.inference.policy_server import PolicyServer
    from alphaswarm_rl.options.resolve import effective_spec
    from alphaswarm_rl.runtime import RLRuntime
    from alphaswarm_rl.spec import RLExperimentSpec

    plain = RLExperimentSpec.from_data(
        {
            "name": "Trunk",
            "env": {"class": "cartpole"},
            "agent": {"class": "ppo", "kwargs": SMALL["ppo"]},
            "training": {"total_timesteps": 256, "n_envs": 4},
            "evaluation": {"episodes": 3},
        }
    )
    flags = {"feature.encoder": "recurrent", "feature.embedDim": 6, "obs.stackFrames": 4}
    spec = effective_spec(plain, flags, {}).spec
    assert "policy_backbone:recurrent" in spec.component_versions
    trained = RLRuntime(spec, settings).train()
    judged = RLRuntime.from_run(trained.run_id, settings).evaluate()
    assert judged.metrics["mean_reward"] == trained.metrics["mean_reward"]
    inference = PolicyServer.of_run(settings, run=trained.run_id)
    assert inference.answer([0.0, 0.1, 0.0, -0.1], episode_start=True).actions in (0, 1)

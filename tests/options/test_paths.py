"""Options that change a component: the environment by id or alias, the agent by name."""

import subprocess
import sys

import pytest
from pydantic import Field

from alphaswarm_rl.core import catalogue
from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.errors import OptionError
from alphaswarm_rl.core.kinds import Agent
from alphaswarm_rl.options.resolve import effective_spec, starting_spec
from alphaswarm_rl.spec import RLExperimentSpec


@pytest.fixture(autouse=True)
def _two_agents(monkeypatch):
    """Two agents that only these tests know: tests over the whole catalogue must not meet them."""
    catalogue.discover()
    for name in ("_components", "_names"):
        monkeypatch.setattr(catalogue, name, dict(getattr(catalogue, name)))

    class OptionsTestOldAgent(Agent):
        """An agent that somebody leaves."""

        rl_alias = "options_test_old"

        class Config(ComponentConfig):
            """Parameters."""

            width: int
            gamma: float = 0.9
            layers: tuple[int, ...] = (8, 8)
            only_here: int = 1

        def build(self, request):
            raise NotImplementedError

    class OptionsTestNewAgent(Agent):
        """An agent that somebody turns to."""

        rl_alias = "options_test_new"
        rl_short_names = ("options_test_narrow",)

        class Config(ComponentConfig):
            """Parameters."""

            width: int = 64
            gamma: float = 0.5
            layers: tuple[int, ...] = (4,)
            depth: int = Field(2, alias="deep")

        @classmethod
        def rl_expand(cls, name, kwargs):
            return cls.rl_alias, {**kwargs, "width": 2}

        def build(self, request):
            raise NotImplementedError


def spec(agent=None, env=None):
    return RLExperimentSpec.from_data({"name": "x", "agent": agent, "env": env})


def old(**kwargs):
    return spec({"class": "options_test_old", "kwargs": kwargs})


def test_a_new_agent_takes_over_what_was_chosen_and_known():
    base = old(width=16, layers=[1, 2], only_here=5)
    effective = effective_spec(base, {"agent.algorithm": "options_test_new"}, {})
    assert effective.spec.agent.name == "options_test_new"
    # gamma was at the old default, so the new one's holds; width has no default, so it was chosen.
    assert effective.spec.agent.kwargs == {"width": 16, "gamma": 0.5, "layers": [1, 2], "deep": 2}
    (notice,) = effective.notices
    assert "only_here=5" in notice
    assert "options_test_old -> options_test_new" in notice


def test_a_name_that_means_something_else_is_left_behind_and_said():
    base = RLExperimentSpec.from_data(
        {"name": "x", "agent": {"class": "ppo", "kwargs": {"n_steps": 256, "net_arch": [32]}}}
    )
    effective = effective_spec(base, {"agent.algorithm": "dqn"}, {})
    assert effective.spec.agent.kwargs["n_steps"] == 1  # steps of a return, not of a rollout
    assert effective.spec.agent.kwargs["net_arch"] == [32]
    assert "n_steps=256" in effective.notices[0]


def test_the_same_agent_keeps_its_parameters():
    base = old(width=16, only_here=5)
    assert effective_spec(base, {"agent.algorithm": "options_test_old"}, {}).spec == base


def test_parameters_of_the_new_agent_can_be_given_with_it():
    flags = {"train.gamma": 0.7, "agent.algorithm": "options_test_new"}
    effective = effective_spec(old(width=16), flags, {})
    assert effective.spec.agent.kwargs["gamma"] == 0.7
    assert effective.notices == ()
    assert effective.sources["agent.class"] == {"value": "options_test_new", "source": "flag --algorithm"}


def test_a_short_name_brings_its_parameters():
    effective = effective_spec(old(width=16), {"agent.algorithm": "options_test_narrow"}, {})
    assert (effective.spec.agent.name, effective.spec.agent.kwargs["width"]) == ("options_test_new", 2)


def test_a_policys_name_is_an_algorithm_and_keeps_what_was_chosen_of_that_policy():
    effective = effective_spec(old(width=16), {"agent.algorithm": "equal_weight"}, {})
    assert effective.spec.agent.kwargs == {"policy": {"class": "equal_weight", "kwargs": {"rebalance_bars": 1}}}
    assert effective.sources == {"agent.kwargs.policy.class": {"value": "equal_weight", "source": "flag --algorithm"}}
    assert effective.notices == ("agent options_test_old -> equal_weight: left behind width=16",)
    slow = spec({"class": "equal_weight", "kwargs": {"rebalance_bars": 21}})
    assert effective_spec(slow, {"agent.algorithm": "equal_weight"}, {}).spec == slow
    other = effective_spec(slow, {"agent.algorithm": "buy_and_hold"}, {}).spec.agent
    assert other.kwargs == {"policy": {"class": "buy_and_hold", "kwargs": {}}}


def test_what_the_starting_spec_chose_leaves_without_a_notice():
    effective = effective_spec(None, {"agent.algorithm": "options_test_new"}, {})
    assert "encoder" not in effective.spec.agent.kwargs
    assert effective.notices == ()


def test_an_unknown_agent_names_the_nearest():
    with pytest.raises(OptionError, match=r"agent\.algorithm \(ENV RL_AGENT_ALGORITHM\).*'a2c'"):
        effective_spec(None, {}, {"RL_AGENT_ALGORITHM": "a2cc"})


def test_a_parameter_the_agent_does_not_take_is_an_error():
    with pytest.raises(OptionError, match=r"train\.learningRate \(flag --learning-rate\).*unknown key 'learning_rate'"):
        effective_spec(old(width=1), {"train.learningRate": "1e-3", "env.nEnvs": 2}, {})


def test_a_parameter_needs_an_agent():
    with pytest.raises(OptionError, match="no agent"):
        effective_spec(spec(), {"train.gamma": 0.5}, {})
    assert effective_spec(spec(), {"train.gamma": 0.5, "agent.algorithm": "ppo"}, {}).spec.agent.kwargs["gamma"] == 0.5


def test_an_alias_of_the_catalogue_is_an_environment():
    effective = effective_spec(None, {"env.envId": "cartpole"}, {})
    assert effective.spec.env.name == "cartpole"
    assert effective.sources == {"env.class": {"value": "cartpole", "source": "flag --env-id"}}


def test_the_same_environment_keeps_its_parameters():
    cartpole = spec(env={"class": "cartpole", "kwargs": {"max_episode_steps": 7}})
    assert effective_spec(cartpole, {"env.envId": "cartpole"}, {}).spec == cartpole
    gym = spec(env={"class": "gymnasium", "kwargs": {"id": "CartPole-v1", "max_episode_steps": 7}})
    effective = effective_spec(gym, {"env.envId": "Acrobot-v1"}, {})
    assert effective.spec.env.kwargs == {"id": "Acrobot-v1", "kwargs": {}, "max_episode_steps": 7}
    assert effective.sources == {"env.kwargs.id": {"value": "Acrobot-v1", "source": "flag --env-id"}}


def test_another_environment_starts_afresh():
    cartpole = spec(env={"class": "cartpole", "kwargs": {"max_episode_steps": 7}})
    kwargs = effective_spec(cartpole, {"env.envId": "Acrobot-v1"}, {}).spec.env.kwargs
    assert (kwargs["id"], kwargs["max_episode_steps"]) == ("Acrobot-v1", None)
    assert effective_spec(spec(), {"env.envId": "Acrobot-v1"}, {}).spec.env.kwargs == kwargs


def test_nothing_given_changes_nothing():
    base = old(width=3)
    assert effective_spec(base, {}, {}).spec is base
    assert effective_spec(None, {}, {}).spec.spec_hash == starting_spec().spec_hash


def test_the_base_is_not_changed():
    base = starting_spec()
    before = base.spec_hash
    effective_spec(base, {"train.gamma": 0.1, "env.envId": "cartpole"}, {})
    assert RLExperimentSpec.from_data(base.canonical()).spec_hash == before


def test_reading_options_needs_no_heavy_library():
    heavy = "torch", "pandas", "stable_baselines3", "sqlalchemy", "click", "gymnasium"
    code = f"import alphaswarm_rl.options.settings, sys; sys.exit(' '.join(set({heavy!r}) & set(sys.modules)) or None)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")

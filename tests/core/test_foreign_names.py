"""Ids of Gymnasium as names of environments, names alone as references, and the base by its other name."""

import pytest

from alphaswarm_rl import AlphaSwarmError, RLExperimentSpec, make_env
from alphaswarm_rl.core import base, catalogue
from alphaswarm_rl.core.errors import ComponentError, DataError, SpecError, UnknownComponent
from alphaswarm_rl.core.refs import build_from_config, reference
from alphaswarm_rl.options.resolve import effective_spec


def env(value):
    return RLExperimentSpec.from_data({"name": "x", "env": value, "agent": {"class": "random"}})


def gymnasium(**kwargs):
    return {"class": "gymnasium", "kwargs": kwargs}


@pytest.mark.parametrize(
    "env_id", ["CartPole-v1", "LunarLander-v2", "ALE/Pong-v5", "forex-v0", "some-thing/My_Env.x-v12"]
)
def test_an_id_is_the_environment_gymnasium_with_that_id(env_id):
    short, long = env({"class": env_id}), env(gymnasium(id=env_id))
    assert short.env == long.env
    assert (short.spec_hash, short.exec_hash) == (long.spec_hash, long.exec_hash)


def test_parameters_beside_an_id_are_those_of_gymnasium_make():
    written = {"class": "LunarLander-v3", "kwargs": {"continuous": True, "gravity": -5.0, "max_episode_steps": 7}}
    meant = gymnasium(id="LunarLander-v3", kwargs={"continuous": True, "gravity": -5.0}, max_episode_steps=7)
    assert env(written).spec_hash == env(meant).spec_hash
    assert env({"class": "CartPole-v1", "kwargs": {}}).spec_hash == env(gymnasium(id="CartPole-v1")).spec_hash


def test_what_the_catalogue_knows_goes_before():
    assert env({"class": "cartpole"}).env.name == "cartpole"
    assert catalogue.get("env", "CartPole-v1").rl_alias == "gymnasium"


@pytest.mark.parametrize("name", ["CartPol", "CartPole-v", "CartPole-v1x", "cart pole-v1", "-v1 "])
def test_what_is_no_id_is_no_environment(name):
    with pytest.raises(UnknownComponent, match="the catalogue has no such component"):
        catalogue.get("env", name)


def test_an_id_is_a_name_of_environments_alone():
    with pytest.raises(UnknownComponent):
        catalogue.get("agent", "CartPole-v1")


def test_an_id_with_a_module_would_import_and_is_refused():
    with pytest.raises(SpecError, match="would import code"):
        env({"class": "os:CartPole-v1"})


def test_an_environment_is_made_by_its_id():
    made = make_env("CartPole-v1", num_envs=3, max_episode_steps=4)
    made.reset()
    for step in range(4):
        truncated = made.step(made.action_space.sample() * 0 + step % 2)[3]
    assert truncated.tolist() == [True] * 3


def test_the_option_writes_the_same_as_a_file():
    base_spec = env(gymnasium(id="CartPole-v1", max_episode_steps=7))
    changed = effective_spec(base_spec, {"env.envId": "Acrobot-v1"}, {})
    assert changed.spec.env.kwargs == {"id": "Acrobot-v1", "kwargs": {}, "max_episode_steps": 7}
    assert list(changed.sources) == ["env.kwargs.id"]


@pytest.mark.parametrize("name", ["gae", "GAEAdvantage"])
def test_the_advantage_may_be_a_name_alone(name):
    agent = {"class": "ppo_inhouse"}
    short, long = (
        RLExperimentSpec.from_data({"name": "x", "agent": agent, "training": {"advantage": value}})
        for value in (name, {"class": "gae"})
    )
    assert short.spec_hash == long.spec_hash


def test_a_replay_buffer_may_be_a_name_alone_and_so_may_its_storage():
    def of(value):
        return reference({"class": "ddqn_inhouse", "kwargs": {"replay": value}}, "agent")

    assert of("prioritized") == of({"class": "PrioritizedReplayBuffer"})
    nested = reference({"class": "nstep_info", "kwargs": {"storage": "prioritized"}}, "replay_buffer")
    assert nested.kwargs["storage"]["class"] == "prioritized"
    with pytest.raises(ComponentError, match="Did you mean 'prioritized'"):
        of("prioritised")


@pytest.mark.parametrize("field", ["env", "agent", "reward", "data_pipeline"])
def test_elsewhere_a_name_alone_is_refused(field):
    with pytest.raises(SpecError, match="a reference is a mapping"):
        RLExperimentSpec.from_data({"name": "x", field: "cartpole"})


@pytest.mark.parametrize(
    ("kind", "name", "alias"),
    [
        ("termination", "DrawdownTermination", "drawdown"),
        ("termination", "MarginCallTermination", "margin_call"),
        ("termination", "MarginCall", "margin_call"),
        ("termination", "RiskBreachTermination", "risk_breach"),
        ("termination", "RiskBreach", "risk_breach"),
        ("reward", "StopProperlyWrapper", "stop_properly"),
        ("reward", "StopProperly", "stop_properly"),
    ],
)
def test_classes_are_known_by_the_names_of_other_documents(kind, name, alias):
    assert catalogue.get(kind, name).rl_alias == alias


def test_the_failures_are_imported_by_name():
    from alphaswarm_rl import terminations
    from alphaswarm_rl.rewards.stop_properly import StopProperlyWrapper

    for name in terminations.__all__:
        cls = getattr(terminations, name)
        assert cls is catalogue.get("termination", name)
        assert cls.improper
    assert catalogue.get("reward", "stop_properly") is StopProperlyWrapper
    with pytest.raises(AttributeError, match="HorizonTermination"):
        _ = terminations.HorizonTermination


def test_data_processor_means_the_pipeline_of_its_source():
    def of(**kwargs):
        return reference({"class": "DataProcessor", "kwargs": kwargs}, "data_pipeline")

    assert of() == of(data_source="yahoofinance") == reference({"class": "yahoo"}, "data_pipeline")
    written = of(
        data_source="alpaca",
        time_interval="5Min",
        tech_indicator_list=["macd"],
        use_turbulence=True,
        use_vix=False,
        feed="sip",
    )
    kwargs = {"bar": "5m", "features": ["macd"], "market_features": ["turbulence"], "feed": "sip"}
    assert written == reference({"class": "alpaca", "kwargs": kwargs}, "data_pipeline")
    assert of(time_interval="1D", use_vix=True).kwargs["market_features"] == ["vix"]
    with pytest.raises(DataError, match="knows no such service"):
        of(data_source="wrds")


def test_the_base_module_lists_and_registers(monkeypatch):
    assert base.RLComponent is catalogue.get("env", "cartpole").__mro__[-2]
    assert type(base.RLComponent) is base.RLComponentMeta
    names = {described.alias for described in base.list_rl_components("rl_reward")}
    assert {"pnl", "stop_properly"} <= names
    assert {
        cls.rl_kind for cls in vars(base).values() if isinstance(cls, base.RLComponentMeta) and hasattr(cls, "rl_kind")
    } == {kind for kind, cls in base.kinds().items() if cls.__module__ == "alphaswarm_rl.core.kinds"}


def test_the_factory_builds_by_an_id():
    built = build_from_config({"class": "CartPole-v1"}, kind="env")
    assert built.config.id == "CartPole-v1"
    with pytest.raises(AlphaSwarmError):
        build_from_config({"class": "CartPole-v1"}, kind="reward")

"""An advantage estimator on its way from the spec to the agent."""

import pytest

import alphaswarm_rl.advantage.estimators  # noqa: F401
from alphaswarm_rl.advantage.estimators import GAEAdvantage
from alphaswarm_rl.core import catalogue
from alphaswarm_rl.core.errors import SpecError
from alphaswarm_rl.core.kinds import Agent
from alphaswarm_rl.inference.builder import Builder
from alphaswarm_rl.spec import RLExperimentSpec, refuse_absent


@pytest.fixture
def taker(monkeypatch):
    """An agent that is built to what it was asked with."""
    catalogue.discover()
    for name in ("_kinds", "_components", "_names"):
        monkeypatch.setattr(catalogue, name, dict(getattr(catalogue, name)))

    class Taker(Agent):
        """Says what it was built for."""

        rl_alias = "taker"
        takes_advantage = True

        def build(self, request):
            return request

    return Taker


def spec(agent, **training):
    return RLExperimentSpec.from_data(
        {"name": "x", "env": {"class": "cartpole"}, "agent": {"class": agent}, "training": training}
    )


def built_for(found):
    builder = Builder(found, seed=0, device="cpu")
    env = builder.build_env("env", num_envs=2, phase="train", window=found.training.window)
    return builder.build_learner(env, training=True)


def test_an_agent_that_takes_one_is_handed_the_estimator_of_the_spec(taker):
    found = spec("taker", advantage={"class": "gae", "kwargs": {"lam": 0.5}})
    refuse_absent(found)
    advantage = built_for(found).advantage
    assert isinstance(advantage, GAEAdvantage)
    assert advantage.config.lam == 0.5
    assert built_for(spec("taker")).advantage is None


@pytest.mark.parametrize("agent", ["ppo", "random"])
def test_an_agent_that_takes_none_is_refused_one_and_another_agent_is_named(taker, agent):
    found = spec(agent, advantage={"class": "grpo"})
    with pytest.raises(SpecError, match="takes no advantage estimator") as caught:
        refuse_absent(found)
    assert "taker" in caught.value.remedy
    with pytest.raises(SpecError, match="takes no advantage estimator"):
        Builder(found, seed=0, device="cpu")

"""A batch is not larger than the rollout that it is taken from."""

import pytest

from alphaswarm_rl.core.contracts import AgentRequest
from alphaswarm_rl.core.errors import ComponentError
from alphaswarm_rl.core.refs import build_from_config

from .worlds import world_for

AGENTS = ("ppo", "trpo", "recurrent_ppo", "maskable_ppo", "ppo_inhouse")


def build(alias, training=True, **kwargs):
    agent = build_from_config({"class": alias, "kwargs": {"n_steps": 16, "net_arch": [8], **kwargs}}, kind="agent")
    env = world_for(alias, num_envs=4)
    return agent.build(AgentRequest.for_env(env, 0, training=training))


@pytest.mark.parametrize("alias", AGENTS)
def test_a_batch_larger_than_a_rollout_is_refused(alias):
    build(alias, batch_size=64)
    with pytest.raises(ComponentError, match=r"batch_size is 65, and a rollout has 64 transitions") as caught:
        build(alias, batch_size=65)
    assert "64 at most" in caught.value.remedy


@pytest.mark.parametrize("alias", AGENTS)
def test_who_only_answers_may_have_fewer_environments(alias):
    build(alias, training=False, batch_size=65)

"""What a policy plan says of a spec, without any training."""

import pytest
from pydantic import Field

from alphaswarm_rl.arrays.backend_numpy import NUMPY
from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.hashing import added_field
from alphaswarm_rl.core.kinds import ObservationBuilder
from alphaswarm_rl.inference.builder import Builder
from alphaswarm_rl.inference.policy_plan import env_id_of, read_plan
from alphaswarm_rl.market.fills import fill_policy
from alphaswarm_rl.market.market import market_of
from tests.envs.panels import random_panel
from tests.runtime.conftest import tiny
from tests.runtime.test_trading import trading

PLAIN = {"class": "random"}
RECURRENT = {"class": "recurrent_ppo"}


class WidenedObservation(ObservationBuilder):
    """As many numbers as it is wide: one when it was new, two today."""

    rl_alias = "plan_test_widened"

    class Config(ComponentConfig):
        width: int = Field(2, description="How many.", json_schema_extra=added_field(since=2, born=1))

    def names(self, panel):
        return tuple(f"number {index}" for index in range(self.config.width))

    def step(self, view, state, out):
        out[...] = 0.0


def plan_of(spec, *, remembers=False):
    builder, window = Builder(spec, seed=0, device="cpu"), spec.evaluation.window
    env = builder.build_env("infer", num_envs=1, phase="evaluate", window=window)
    return builder.policy_plan(env, window, remembers=remembers)


@pytest.mark.parametrize(
    ("agent", "frames", "built", "remembers"),
    [
        (PLAIN, None, False, False),
        (PLAIN, 1, False, False),
        (PLAIN, 2, False, True),
        (PLAIN, None, True, True),
        (RECURRENT, None, False, True),
    ],
)
def test_an_answer_depends_on_the_past_by_frames_by_a_tag_or_by_what_was_built(agent, frames, built, remembers):
    spec = tiny(agent=agent, obs={"stack_frames": frames})
    assert plan_of(spec, remembers=built).remembers is remembers


def test_the_plan_of_a_trading_policy_has_stages_fill_and_money():
    kwargs = {"portfolio": [{"class": "identity"}], "initial_cash": 5000.0}
    plan = plan_of(trading(agent=PLAIN, env_kwargs=kwargs, action={"class": "continuous_weights"}))
    assert plan.action.component["class"] == "continuous_weights"
    assert [ref["class"] for ref in plan.action.stages] == ["identity"]
    assert (plan.market.fill, plan.market.initial_cash) == ("next_close", 5000.0)
    assert read_plan(plan.to_json(), checkpoint="x").to_json() == plan.to_json()


def test_a_policy_of_an_environment_without_a_market_trades_nothing():
    plan = plan_of(tiny(agent=PLAIN))
    assert (plan.market, plan.action.component, plan.action.trade) == (None, None, None)
    assert (plan.action.stages, plan.observation.builders) == ((), ())


def test_a_parameter_that_a_stored_plan_lacks_is_as_it_was_born():
    data = plan_of(trading(agent=PLAIN)).to_json()
    data["observation"]["builders"] = [{"class": "plan_test_widened", "kwargs": {}}]
    panel = random_panel(0, assets=2)
    market = market_of(panel, fill_policy("next_close"), NUMPY)
    assert read_plan(data, checkpoint="x").observer(market, 1).feature_names == ("number 0",)


def test_an_environment_of_gymnasium_is_called_by_its_id():
    assert env_id_of(tiny(env={"class": "gymnasium", "kwargs": {"id": "CartPole-v1"}})) == "CartPole-v1"
    assert env_id_of(tiny()) == "cartpole"

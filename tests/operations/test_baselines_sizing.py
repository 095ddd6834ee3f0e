"""Rules beside a policy whose decisions make orders are judged as it is."""

import numpy as np

from alphaswarm_rl import make_env
from alphaswarm_rl.core.judgement import Judgement, judgement_differences
from alphaswarm_rl.inference.builder import Builder
from alphaswarm_rl.operations.baselines import baseline_names, baseline_spec
from alphaswarm_rl.spec import RLExperimentSpec
from tests.envs.panels import random_panel

SIZED = {"sizing": "at_decision", "order_rules": {"lot": 1}}


def spec(**kwargs):
    return RLExperimentSpec.from_data(
        {
            "name": "sized",
            "env": {"class": "stock_portfolio", "kwargs": kwargs},
            "data_pipeline": {"class": "synthetic"},
            "agent": {"class": "ppo_inhouse"},
        }
    )


def test_baselines_trade_by_weights_with_the_same_rules():
    for name in baseline_names(spec()):
        sized = baseline_spec(spec(**SIZED), name)
        assert sized.env.build().config.sizing == "at_decision"
        assert sized.env.build().config.order_rules.lot == 1
        if name != "random":
            assert sized.action.name == "continuous_weights"
            assert baseline_spec(spec(), name).action.name == "integer_shares"


def test_what_a_score_is_judged_on_has_the_sizing_where_it_is_not_at_the_fill():
    panel = random_panel(1)
    builder = Builder(spec(), seed=0, device="cpu")
    envs = [
        make_env("stock_portfolio", panel=panel, lookback=5, **kwargs)
        for kwargs in ({}, {"sizing": "at_decision"}, SIZED)
    ]
    plain, sized, lots = (Judgement(None, None, None, 1, True, builder.trading_costs(env)) for env in envs)
    assert "sizing" not in plain.costs
    assert judgement_differences(sized, lots) == ["sizing.lot: 0.0 and 1.0"]
    assert any("sizing" in difference for difference in judgement_differences(plain, sized))
    assert np.unique([one.key for one in (plain, sized, lots)]).size == 3

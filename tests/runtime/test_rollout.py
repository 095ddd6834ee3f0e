"""What an evaluation says of the episodes that it played."""

import pytest

from alphaswarm_rl import RLExperimentSpec, RLRuntime

BARS = {"class": "synthetic", "kwargs": {"n_assets": 2, "n_bars": 400, "seed": 0, "features": ["rsi_30"]}}


@pytest.mark.parametrize(
    ("spec", "distinct"),
    [
        # A rule that draws nothing plays the same window three times.
        (
            {
                "env": {"class": "stock_portfolio"},
                "data_pipeline": BARS,
                "agent": {"class": "policy", "kwargs": {"policy": {"class": "equal_weight"}}},
            },
            1,
        ),
        # Every episode begins elsewhere, also where all of them end alike.
        ({"env": {"class": "cartpole"}, "agent": {"class": "constant", "kwargs": {"action": 0}}}, 3),
        ({"env": {"class": "stock_portfolio"}, "data_pipeline": BARS, "agent": {"class": "random"}}, 3),
    ],
)
def test_an_episode_that_is_played_again_is_no_evidence(settings, spec, distinct):
    whole = RLExperimentSpec.from_data({"name": "again", **spec, "evaluation": {"episodes": 3, "deterministic": True}})
    metrics = RLRuntime(whole, settings).evaluate().metrics
    assert (metrics["episodes"], metrics["distinct_episodes"]) == (3, distinct)

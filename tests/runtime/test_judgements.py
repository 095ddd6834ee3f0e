"""What scores are judged on: data, dates, episodes, costs."""

from alphaswarm_rl.core.judgement import judgement_differences
from alphaswarm_rl.runtime import RLRuntime
from tests.runtime.conftest import tiny
from tests.runtime.test_trading import LATER, trading

RULE = {"class": "random"}


def judged(ledger, result):
    return ledger.evaluations(result.run_id)[-1].judgement


def test_policies_that_look_back_differently_and_see_other_features_are_judged_alike(settings, ledger):
    """The first bar that is traded is the same, whatever is looked at before it."""
    first = RLRuntime(trading(agent=RULE, env_kwargs={"episode_bars": None}), settings).evaluate()
    other = trading(
        agent=RULE,
        env_kwargs={"episode_bars": None},
        bars={"features": ["rsi"], "scaler": "none"},
        obs={"normalize": "fixed"},
    )
    second = RLRuntime(other, settings).evaluate()
    ours, theirs = judged(ledger, first), judged(ledger, second)
    assert judgement_differences(ours, theirs) == []
    assert ours.dated
    assert (ours.start, ours.episodes, ours.costs["fill"]) == ("2020-08-03", 1, "next_close")
    rows = [ledger.run(result.run_id).data_fingerprint for result in (first, second)]
    assert rows[0] != rows[1]


def test_other_dates_bars_and_costs_are_named(settings, ledger):
    def judgement(window=None, **changes):
        return judged(ledger, RLRuntime(trading(agent=RULE, **changes), settings).evaluate(window=window))

    base = judgement()
    differ = {
        "dates": judgement(window=LATER),
        "bars": judgement(bars={"seed": 2}),
        "costs": judgement(env_kwargs={"costs": {"half_spread_bps": 9.0}}),
        "acting": judgement(evaluation={"deterministic": False}),
        "episodes": judgement(evaluation={"episodes": 3}),
    }
    respects = {
        name: [line.partition(":")[0] for line in judgement_differences(base, other)] for name, other in differ.items()
    }
    assert respects == {
        "dates": ["data", "first bar", "last bar"],
        "bars": ["data"],
        "costs": ["half_spread_bps"],
        "acting": ["deterministic"],
        "episodes": ["episodes"],
    }


def test_a_window_that_is_played_again_and_again_is_one_episode(settings, ledger):
    rule = {"class": "policy", "kwargs": {"policy": {"class": "buy_and_hold"}}}
    spec = trading(agent=rule, env_kwargs={"episode_bars": None}, evaluation={"episodes": 3})
    assert judged(ledger, RLRuntime(spec, settings).evaluate()).episodes == 1


def test_an_environment_without_dates_has_a_judgement_without_them(settings, ledger):
    found = judged(ledger, RLRuntime(tiny(agent=RULE), settings).evaluate())
    assert not found.dated
    assert (found.window, found.costs) == ("no dates", {})

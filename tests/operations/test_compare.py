"""What orders runs in a comparison, and which of them stand in one table."""

from types import SimpleNamespace

import pytest

from alphaswarm_rl.core.judgement import Judgement
from alphaswarm_rl.operations.compare import ComparedRun, Measured, _differences, _interval_of_rewards, _rank

UNDATED = Judgement(None, None, None, 10, True)


def run(**measures):
    found = {name: Measured(value) for name, value in measures.items()}
    return ComparedRun("id", "label", False, "evaluate", None, found, None, {})


@pytest.mark.parametrize(
    ("measure", "best_first"),
    [
        ("sharpe", [2.0, -1.0, None]),
        ("max_drawdown", [-0.1, -0.5, None]),
        ("volatility", [0.1, 0.5, None]),
        ("turnover", [0.0, 3.0, None]),
        ("cost", [0.01, 0.2, None]),
    ],
)
def test_the_best_comes_first_and_what_is_undefined_last(measure, best_first):
    runs = [run(**{measure: value}) for value in reversed(best_first)]
    ordered = sorted([*runs, run()], key=lambda each: _rank(each, measure))
    assert [each.measures[measure].value for each in ordered[:3]] == best_first


def test_equal_returns_of_few_episodes_have_no_interval():
    assert _interval_of_rewards({"returns": [3.0, 3.0, 3.0]}) is None
    assert _interval_of_rewards({"returns": [3.0]}) is None
    assert _interval_of_rewards({"returns": [3.0, 4.0, 5.0]}).estimate == pytest.approx(4.0)


def test_environments_without_dates_are_alike_where_they_are_the_same():
    def judged(name):
        env = SimpleNamespace(canonical_form=lambda: {"class": name})
        return SimpleNamespace(evaluation=SimpleNamespace(judgement=UNDATED), spec=SimpleNamespace(env=env))

    assert _differences(judged("cartpole"), judged("cartpole")) == []
    assert _differences(judged("cartpole"), judged("acrobot")) == ["env: cartpole and acrobot"]

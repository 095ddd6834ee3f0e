"""Measures of an equity curve against closed forms and numbers that others published."""

import math

import numpy as np
import pytest

from alphaswarm_rl.statistics.performance import (
    ACCOUNT_MEASURES,
    EPISODE_MEASURES,
    RETURN_MEASURES,
    account_measures,
    episode_measures,
    mean_measures,
    performance,
    returns_of,
    undefined_reasons,
)
from tests.statistics import published


def curve(returns, start=100.0):
    return start * np.concatenate([[1.0], np.cumprod(1.0 + np.asarray(returns))])


@pytest.mark.parametrize("start", [1.0, 100.0, 1e6])
def test_the_numbers_are_empyricals(start):
    found = performance(curve(published.RETURNS, start), 252)
    for name, value in published.MEASURES.items():
        assert found[name] == pytest.approx(value, rel=1e-9), name
    assert found["total_return"] == pytest.approx(np.prod(1 + published.RETURNS) - 1)
    assert found["final_value"] == pytest.approx(start * np.prod(1 + published.RETURNS))


def test_two_returns_by_hand():
    # 100 -> 110 -> 99: returns 0.1 and -0.1, mean 0, deviation sqrt(0.02).
    found = performance([100.0, 110.0, 99.0], 4)
    assert found["total_return"] == pytest.approx(-0.01)
    assert found["annual_return"] == pytest.approx(0.99**2 - 1)
    assert found["sharpe"] == pytest.approx(0.0, abs=1e-12)
    assert found["volatility"] == pytest.approx(2 * math.sqrt(0.02))
    assert found["max_drawdown"] == pytest.approx(-0.1)


def test_the_ratios_by_hand():
    # Returns 0.02 and -0.01: mean 0.005, deviation 0.03 / sqrt(2), downside sqrt(0.0001 / 2).
    found = performance(curve([0.02, -0.01]), 100)
    assert found["sharpe"] == pytest.approx(10 * 0.005 / (0.03 / math.sqrt(2)))
    assert found["sortino"] == pytest.approx(10 * 0.005 / math.sqrt(0.0001 / 2))


def test_a_fall_in_the_first_period_is_a_drawdown():
    assert performance([100.0, 80.0, 90.0], 252)["max_drawdown"] == pytest.approx(-0.2)


def test_a_drawdown_is_measured_from_an_earlier_peak_never_a_later_one():
    assert performance([100.0, 90.0, 200.0, 190.0], 252)["max_drawdown"] == pytest.approx(-0.1)


@pytest.mark.parametrize(
    ("returns", "undefined"),
    [
        ([0.01] * 50, {"sharpe": "the returns do not vary", "sortino": "no return is a loss"}),
        ([0.0] * 5, {"sharpe": "the returns do not vary", "sortino": "no return is a loss"}),
        ([0.01, 0.02], {"sortino": "no return is a loss"}),
        ([-0.01] * 5, {"sharpe": "the returns do not vary"}),
        (
            [-0.01],
            {
                "sharpe": "it needs 2 periods or more, and there are 1",
                "volatility": "it needs 2 periods or more, and there are 1",
            },
        ),
        (
            [],
            {
                "annual_return": "it needs 1 periods or more, and there are 0",
                "sharpe": "it needs 2 periods or more, and there are 0",
                "sortino": "it needs 1 periods or more, and there are 0",
                "volatility": "it needs 2 periods or more, and there are 0",
            },
        ),
    ],
    ids=["steady", "flat", "rising", "falling", "one", "none"],
)
def test_what_does_not_exist_is_nan_and_has_a_reason(returns, undefined):
    found = performance(curve(returns), 252)
    assert {name for name, value in found.items() if math.isnan(value)} == set(undefined)
    assert undefined_reasons([found], [len(returns)]) == undefined
    assert not any(math.isinf(value) for value in found.values())


def test_a_mean_over_episodes_is_undefined_where_one_of_them_is():
    steady, risky = performance(curve([0.01] * 5), 252), performance(curve([0.01, -0.02]), 252)
    means = mean_measures([risky, steady, steady])
    assert math.isnan(means["sharpe"])
    assert means["total_return"] == pytest.approx((risky["total_return"] + 2 * steady["total_return"]) / 3)
    reasons = undefined_reasons([risky, steady, steady], [2, 5, 5])
    assert reasons["sharpe"] == "in 2 of 3 episodes the returns do not vary"
    assert set(reasons) == {"sharpe", "sortino"}
    assert undefined_reasons([], []) == {}


def test_values_that_are_not_finite_are_said():
    found = performance([100.0, math.nan, 90.0], 252)
    reasons = undefined_reasons([found], [2])
    assert reasons["max_drawdown"] == reasons["sharpe"] == "the account's values are not finite"


@pytest.mark.parametrize("name", sorted(RETURN_MEASURES))
def test_many_returns_at_once_are_measured_as_each_alone(name):
    rows = np.array([published.RETURNS, [0.01] * 8, [0.02, -0.01] * 4])
    found = RETURN_MEASURES[name](rows, 252)
    assert found.shape == (3,)
    for row, value in zip(rows, found, strict=True):
        alone = {**performance(curve(row), 252), "mean_return": row.mean() * 252}[name]
        assert value == pytest.approx(alone, rel=1e-12, nan_ok=True)


def test_fewer_returns_than_a_measure_needs_are_undefined_for_each_row():
    for name, periods in (("sharpe", 1), ("volatility", 1), ("sortino", 0)):
        found = RETURN_MEASURES[name](np.zeros((2, periods)), 252)
        assert found.shape == (2,)
        assert np.isnan(found).all(), name


@pytest.mark.parametrize("values", [[100.0, 0.0, 0.0], [100.0, 50.0, 0.0, 0.0], [100.0, -20.0, -30.0]])
def test_ruin_is_finite(values):
    found = performance(values, 252)
    assert found["annual_return"] == -1.0
    assert found["total_return"] <= -1.0
    assert found["max_drawdown"] <= -1.0
    assert all(math.isfinite(value) for value in found.values())


def test_nothing_earns_nothing():
    assert returns_of(np.array([100.0, 0.0, 0.0, 5.0])).tolist() == [-1.0, 0.0, 0.0]


def test_growth_beyond_all_numbers_is_cut_off():
    many = [performance([1.0, 2.0], 525_600)["annual_return"] for _ in range(1000)]
    assert math.isfinite(many[0])
    assert math.isfinite(np.mean(many))


def test_episodes_by_hand():
    found = episode_measures([1.0, 3.0, 5.0], [10, 20, 60])
    assert tuple(found) == EPISODE_MEASURES
    assert found["std_reward"] == pytest.approx(math.sqrt(8 / 3))
    assert (found["mean_reward"], found["total_reward"], found["mean_length"]) == (3.0, 9.0, 30.0)
    assert (found["min_reward"], found["max_reward"]) == (1.0, 5.0)


def test_an_account_by_hand():
    found = account_measures(np.array([100.0, 110.0, 99.0]), np.array([0.5, 0.1]), np.array([2.0, 3.0]), 252)
    assert set(found) == set(ACCOUNT_MEASURES)
    assert (found["turnover"], found["cost"]) == (pytest.approx(0.3), 0.05)
    assert mean_measures([{"cost": 1.0}, {"cost": 2.0}]) == {"cost": 1.5}
    assert mean_measures([]) == {}

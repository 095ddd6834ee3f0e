"""Measures beyond those of every evaluation, by hand and by numbers that others published."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from alphaswarm_rl.core.errors import StatisticsError
from alphaswarm_rl.statistics import (
    MEASURES,
    certainty_equivalent,
    conditional_value_at_risk,
    cost_share,
    curve_of,
    drawdowns,
    exposure,
    hit_rate,
    market_model,
    return_measures,
    rolling,
    sharpe,
    sortino,
    stationary_bootstrap,
    tail_ratio,
    turnover,
    undefined_reasons,
    value_at_risk,
)
from alphaswarm_rl.statistics import measures as module
from tests.statistics import published

PUBLISHED = {**published.MEASURES, **published.MORE_MEASURES}
RETURNS = arrays(np.float64, st.integers(2, 60), elements=st.floats(-0.5, 0.5).map(lambda value: round(value, 6)))


def test_the_numbers_are_empyricals():
    found = return_measures(published.RETURNS, 252)
    for name, value in PUBLISHED.items():
        assert found[name] == pytest.approx(value, rel=1e-9), name


def test_a_worked_example():
    # Sorted: -0.10, -0.04, 0.01, 0.01, 0.02, 0.02, 0.03, 0.10; 5 % of 7 steps is 0.35 of the first.
    assert float(value_at_risk(published.RETURNS)) == pytest.approx(-0.10 + 0.35 * 0.06)
    assert float(value_at_risk(published.RETURNS, 1 / 7)) == pytest.approx(-0.04)
    assert float(conditional_value_at_risk(published.RETURNS, 0.3)) == pytest.approx((-0.10 - 0.04 + 0.01) / 3)
    assert float(tail_ratio(published.RETURNS)) == pytest.approx((0.03 + 0.65 * 0.07) / 0.079)
    assert float(hit_rate(np.array([0.1, 0.0, -0.1, 0.2]))) == pytest.approx(2 / 3)


def test_the_worst_returns_are_a_share_and_at_least_one():
    falling = -np.arange(21.0) / 100
    assert float(conditional_value_at_risk(falling[:20])) == pytest.approx(-0.19)
    assert float(conditional_value_at_risk(falling)) == pytest.approx(-0.195)
    assert float(conditional_value_at_risk(falling[1:2])) == pytest.approx(-0.01)


def test_a_risk_free_rate_is_taken_off_each_period():
    rate = np.linspace(0.0, 0.01, 8)
    for risk_free in (0.002, rate):
        excess = published.RETURNS - risk_free
        found = return_measures(published.RETURNS, 252, risk_free=risk_free)
        assert found["sharpe"] == pytest.approx(math.sqrt(252) * excess.mean() / excess.std(ddof=1))
        downside = math.sqrt((np.minimum(excess, 0) ** 2).mean())
        assert found["sortino"] == pytest.approx(math.sqrt(252) * excess.mean() / downside)
        assert float(sharpe(published.RETURNS, 252, risk_free)) == found["sharpe"]
        assert float(sortino(published.RETURNS, 252, risk_free)) == found["sortino"]
    # Neither volatility nor what happened to the account asks for it.
    assert found["volatility"] == pytest.approx(PUBLISHED["volatility"], rel=1e-9)


def test_the_market_model_is_the_line_of_least_squares():
    rng = np.random.default_rng(0)
    benchmark = 0.01 * rng.standard_normal(300)
    returns = 0.0002 + 1.5 * benchmark + 0.002 * rng.standard_normal(300)
    slope, intercept = np.polyfit(benchmark - 0.0001, returns - 0.0001, 1)
    found = market_model(returns, benchmark, 252, risk_free=0.0001)
    assert found.beta == pytest.approx(slope)
    assert found.alpha == pytest.approx(intercept * 252)
    assert market_model(benchmark, benchmark, 252).beta == pytest.approx(1.0)
    assert market_model(benchmark, benchmark, 252).alpha == pytest.approx(0.0, abs=1e-15)
    assert market_model(np.array([0.0, 0.2]), np.array([0.1, 0.2]), 1).beta == pytest.approx(2.0)
    both = return_measures(returns, 252, risk_free=0.0001, benchmark=benchmark)
    assert (both["alpha"], both["beta"]) == (found.alpha, found.beta)


def test_the_certainty_equivalent_of_a_normal_distribution_is_known():
    outcomes = 0.05 + 0.2 * np.random.default_rng(1).standard_normal(400_000)
    for aversion in (3.0, -2.0, 1e-14):
        expected = 0.05 - aversion * 0.04 / 2
        assert float(certainty_equivalent(outcomes, aversion)) == pytest.approx(expected, abs=0.003)


def test_a_certainty_equivalent_does_not_overflow():
    assert float(certainty_equivalent(np.array([5000.0, -5000.0]), 1.0)) == pytest.approx(-5000 + math.log(2))
    assert certainty_equivalent(np.array([[1.0, 3.0], [2.0, 2.0]]), 0.0).tolist() == [2.0, 2.0]
    assert math.isnan(certainty_equivalent(np.array([]), 1.0))
    assert float(certainty_equivalent(np.array([0.3]), 1.0)) == pytest.approx(0.3)


@given(RETURNS, st.floats(0.01, 5.0))
def test_a_certainty_equivalent_is_between_the_worst_and_the_mean(returns, aversion):
    found = float(certainty_equivalent(returns, aversion))
    assert returns.min() - 1e-9 <= found <= returns.mean() + 1e-9


@given(RETURNS, st.floats(0.01, 1.9))
def test_what_measures_always_are(returns, scale):
    found, scaled = (return_measures(rows, 252) for rows in (returns, scale * returns))
    assert scaled["sharpe"] == pytest.approx(found["sharpe"], rel=1e-6, abs=1e-9, nan_ok=True)
    assert -1.0 <= found["max_drawdown"] <= 0.0
    assert found["conditional_value_at_risk"] <= found["value_at_risk"] + 1e-12
    assert math.isnan(found["hit_rate"]) or 0.0 <= found["hit_rate"] <= 1.0


@pytest.mark.parametrize("name", sorted(MEASURES))
def test_many_at_once_are_each_alone(name):
    rows = np.array([published.RETURNS, [0.01] * 8, [0.02, -0.01] * 4, [0.0] * 8])
    found = MEASURES[name](rows, 252)
    alone = [float(MEASURES[name](row, 252)) for row in rows]
    assert found.shape == (4,)
    assert found.tolist() == pytest.approx(alone, rel=1e-12, nan_ok=True)


@pytest.mark.parametrize("name", sorted(MEASURES))
@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_what_is_not_finite_is_no_number(name, wrong):
    rows = np.array([[0.01, wrong, -0.02, 0.03], [0.01, 0.02, -0.02, 0.03]])
    with np.errstate(all="ignore"):
        found = MEASURES[name](rows, 252)
    assert np.isnan(found[0])
    assert np.isfinite(found[1])


@pytest.mark.parametrize(
    ("returns", "reasons"),
    [
        ([0.01] * 5, {"sharpe", "sortino", "calmar"}),
        ([0.0] * 5, {"sharpe", "sortino", "calmar", "hit_rate", "tail_ratio"}),
        ([0.01], {"sharpe", "sortino", "calmar", "volatility", "alpha", "beta"}),
        ([], set(PUBLISHED) - {"max_drawdown"} | {"alpha", "beta", "hit_rate", "mean_return", "tail_ratio"}),
    ],
    ids=["steady", "flat", "one", "none"],
)
def test_what_does_not_exist_is_nan_and_has_a_reason(returns, reasons):
    benchmark = np.linspace(0.0, 0.01, len(returns))
    found = return_measures(np.array(returns), 252, benchmark=benchmark)
    reasons_given = undefined_reasons([found], [len(returns)])
    assert set(reasons_given) == {name for name, value in found.items() if math.isnan(value)} == reasons
    assert not any("not finite" in reason for reason in reasons_given.values())
    assert not any(math.isinf(value) for value in found.values())


def test_a_benchmark_that_stands_still_explains_nothing():
    found = return_measures(published.RETURNS, 252, benchmark=np.full(8, 0.01))
    assert math.isnan(found["alpha"])
    assert undefined_reasons([found], [8])["beta"] == "the benchmark's returns do not vary"


def test_a_benchmark_of_other_periods_is_refused():
    for benchmark in (published.RETURNS[1:], published.RETURNS[:, np.newaxis]):
        with pytest.raises(StatisticsError, match="the benchmark: it has the shape"):
            return_measures(published.RETURNS, 252, benchmark=benchmark)


def test_moving_windows(monkeypatch):
    monkeypatch.setattr(module, "_AT_ONCE", 7)  # several chunks
    found = rolling(published.RETURNS, 3, MEASURES["sharpe"], 252)
    assert np.isnan(found[:2]).all()
    for place in range(2, 8):
        assert found[place] == float(sharpe(published.RETURNS[place - 2 : place + 1], 252))
    assert np.isnan(rolling(published.RETURNS, 9, MEASURES["sharpe"], 252)).all()
    assert rolling(published.RETURNS, 8, MEASURES["max_drawdown"], 252)[-1] == pytest.approx(-0.1)
    with pytest.raises(StatisticsError, match="a window of 0 periods"):
        rolling(published.RETURNS, 0, MEASURES["sharpe"], 252)


def test_every_measure_has_a_bootstrap_interval():
    returns = 0.001 + 0.01 * np.random.default_rng(2).standard_normal(120)
    for name, measure in MEASURES.items():
        found = stationary_bootstrap(returns, lambda rows, measure=measure: measure(rows, 252), resamples=200)
        assert found.low <= found.estimate <= found.high or name == "max_drawdown", name


def test_drawdowns_one_by_one():
    values = np.array([100.0, 110.0, 99.0, 104.5, 110.0, 120.0, 60.0, 90.0])
    days = ["mon", "tue", "wed", "thu", "fri", "sat", "sun", "mon2"]
    deep, shallow = drawdowns(values, days)
    assert (deep.depth, deep.peak, deep.trough, deep.recovery, deep.periods) == (-0.5, "sat", "sun", None, 2)
    assert shallow.depth == pytest.approx(-0.1)
    assert (shallow.peak, shallow.trough, shallow.recovery, shallow.periods) == ("tue", "wed", "fri", 3)
    assert drawdowns(values, days, most=1) == [deep]
    assert drawdowns(values)[0].peak == 5
    assert drawdowns(np.array([1.0, 1.0, 2.0])) == []
    # Ruin from the start, and two that are equally deep: the earlier first.
    assert [(fall.peak, fall.trough) for fall in drawdowns(np.array([2.0, 1.0, 2.0, 1.0]))] == [(0, 1), (2, 3)]


@given(RETURNS)
def test_the_deepest_drawdown_is_the_maximum_drawdown(returns):
    found = drawdowns(curve_of(returns))
    deepest = found[0].depth if found else 0.0
    assert deepest == float(MEASURES["max_drawdown"](returns, 252))


@pytest.mark.parametrize("values", [[], [1.0, math.nan], [0.0, 1.0], [[1.0, 2.0]]])
def test_a_curve_without_a_drawdown_to_speak_of_is_refused(values):
    with pytest.raises(StatisticsError, match="the curve of a drawdown"):
        drawdowns(np.array(values))


def test_moments_are_as_many_as_values():
    with pytest.raises(StatisticsError, match="there are 1 of 2 values"):
        drawdowns(np.array([1.0, 2.0]), ["mon"])


def test_turnover_by_hand():
    weights = np.array([[0.5, 0.5], [0.6, 0.4], [0.0, 0.0]])
    assert turnover(weights).tolist() == pytest.approx([0.2, 1.0])
    # 0.5 and 0.5 drift to 0.55 / 1.0 and 0.45 / 1.0; then 0.6 and 0.4 of an account that lost everything.
    returns = np.array([[0.1, -0.1], [-1.0, -1.0]])
    found = turnover(weights, returns)
    assert found[0] == pytest.approx(0.1)
    assert math.isnan(found[1])
    # Half of it cash: 0.5 * 1.2 / 1.1.
    assert turnover(np.array([[0.5], [0.5]]), np.array([[0.2]])).tolist() == pytest.approx([0.6 / 1.1 - 0.5])
    assert turnover(weights[:1]).tolist() == []


def test_holding_is_no_turnover():
    rng = np.random.default_rng(3)
    returns = 0.02 * rng.standard_normal((50, 4))
    values = np.concatenate([np.ones((1, 4)), np.cumprod(1 + returns, axis=0)]) * [0.4, 0.3, 0.2, -0.1]
    weights = values / (values.sum(axis=1, keepdims=True) + 0.2)
    assert turnover(weights, returns) == pytest.approx(0.0, abs=1e-12)
    assert turnover(weights).min() > 0.001


def test_exposure_and_the_share_of_costs():
    assert exposure(np.array([[0.5, -0.25], [0.25, 0.0]])) == pytest.approx(0.5)
    assert math.isnan(exposure(np.zeros((0, 2))))
    assert cost_share(profit=30.0, costs=10.0) == 0.25
    assert cost_share(profit=-5.0, costs=10.0) == 2.0
    assert math.isnan(cost_share(profit=-10.0, costs=10.0))


def test_weights_and_returns_that_do_not_fit_are_refused():
    with pytest.raises(StatisticsError, match="weights: they have the shape"):
        turnover(np.zeros(3))
    with pytest.raises(StatisticsError, match="the assets' returns: they have the shape"):
        turnover(np.zeros((3, 2)), np.zeros((3, 2)))

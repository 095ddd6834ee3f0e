"""The same numbers as the libraries that others use, on returns that none of them was made for."""

import warnings

import empyrical
import numpy as np
import pandas as pd
import pytest
import quantstats.stats as quantstats
from purgedcv import probability_of_backtest_overfitting as purgedcv_pbo
from scipy import stats
from skfolio.model_selection import CombinatorialPurgedCV, WalkForward
from sklearn.model_selection import TimeSeriesSplit
from statsmodels.api import OLS, add_constant
from statsmodels.stats.multitest import multipletests

from alphaswarm_rl.statistics import (
    CombinatorialPurgedKFold,
    SharpeEstimate,
    benjamini_hochberg,
    holm_bonferroni,
    market_model,
    probabilistic_sharpe_ratio,
    probability_of_backtest_overfitting,
    return_measures,
    rolling,
    sharpe,
    walk_forward_anchored,
    walk_forward_rolling,
)

DAYS = pd.date_range("2015-01-01", periods=750, freq="B")
RATE = 0.0001


def returns(seed):
    """Heavy tails, some skill, and days on which nothing moved."""
    rng = np.random.default_rng(seed)
    found = 0.01 * rng.standard_t(4, len(DAYS)) + 0.0005
    found[rng.random(len(DAYS)) < 0.05] = 0.0
    return found


@pytest.mark.parametrize("per_year", [252, 365])
@pytest.mark.parametrize("seed", range(5))
def test_measures_are_empyricals(seed, per_year, monkeypatch):
    # The newest empyrical under the lock still asks NumPy for a name that went with NumPy 2.
    monkeypatch.setattr(np, "NINF", -np.inf, raising=False)
    series = returns(seed)
    found = return_measures(series, per_year)
    year = {"annualization": per_year}
    expected = {
        "sharpe": empyrical.sharpe_ratio(series, **year),
        "sortino": empyrical.sortino_ratio(series, **year),
        "calmar": empyrical.calmar_ratio(series, **year),
        "max_drawdown": empyrical.max_drawdown(series),
        "volatility": empyrical.annual_volatility(series, **year),
        "annual_return": empyrical.cagr(series, **year),
        "value_at_risk": empyrical.value_at_risk(series),
        "conditional_value_at_risk": empyrical.conditional_value_at_risk(series),
        "downside_deviation": empyrical.downside_risk(series, **year),
        "tail_ratio": empyrical.tail_ratio(series),
        "total_return": empyrical.cum_returns_final(series),
    }
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-10), name
    above = return_measures(series, per_year, risk_free=RATE)
    assert above["sharpe"] == pytest.approx(empyrical.sharpe_ratio(series, risk_free=RATE, **year), rel=1e-10)
    assert above["sortino"] == pytest.approx(empyrical.sortino_ratio(series, required_return=RATE, **year), rel=1e-10)
    moving = rolling(series, 60, sharpe, per_year)[59:]
    assert moving == pytest.approx(empyrical.roll_sharpe_ratio(series, 60, **year), rel=1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_measures_are_quantstats(seed):
    series = pd.Series(returns(seed), DAYS)
    found = return_measures(series.to_numpy(), 252)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = {
            "sharpe": quantstats.sharpe(series),
            "sortino": quantstats.sortino(series),
            "max_drawdown": quantstats.max_drawdown(series),
            "volatility": quantstats.volatility(series),
            "total_return": quantstats.comp(series),
            "hit_rate": quantstats.win_rate(series),
            "annual_return": quantstats.cagr(series, periods=252),
            "calmar": quantstats.calmar(series, periods=252),
        }
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-9), name


@pytest.mark.parametrize("seed", range(5))
def test_the_probabilistic_sharpe_ratio_is_nearly_quantstats(seed):
    # Its moments are unbiased ones.
    series = pd.Series(returns(seed), DAYS)
    found = probabilistic_sharpe_ratio(SharpeEstimate.of(series.to_numpy()))
    assert found == pytest.approx(quantstats.probabilistic_sharpe_ratio(series), abs=5e-3)


@pytest.mark.parametrize("seed", range(5))
def test_alpha_and_beta_are_those_of_a_regression(seed):
    benchmark = returns(seed)
    series = 0.7 * benchmark + returns(seed + 100)
    found = market_model(series, benchmark, 252, risk_free=RATE)
    intercept, slope = OLS(series - RATE, add_constant(benchmark - RATE)).fit().params
    assert (found.alpha, found.beta) == (pytest.approx(intercept * 252, rel=1e-9), pytest.approx(slope, rel=1e-10))
    assert market_model(series, benchmark, 252).beta == pytest.approx(empyrical.beta(series, benchmark), rel=1e-10)


@pytest.mark.parametrize(("folds", "tested"), [(5, 2), (6, 3), (10, 2), (6, 4)])
@pytest.mark.parametrize(("purge", "embargo"), [(0, 0), (3, 0), (0, 4), (2, 3)])
@pytest.mark.parametrize("periods", [100, 117])
def test_combinatorial_splits_and_paths_are_skfolios(folds, tested, purge, embargo, periods):
    ours = CombinatorialPurgedKFold(folds, tested, purge=purge, embargo=embargo)
    theirs = CombinatorialPurgedCV(n_folds=folds, n_test_folds=tested, purged_size=purge, embargo_size=embargo)
    both = zip(ours.split(periods), theirs.split(np.zeros((periods, 1))), strict=True)
    for split, (train, tests) in both:
        assert split.train.tolist() == train.tolist()
        assert [part.tolist() for part in split.tests] == [part.tolist() for part in tests]
    assert (ours.splits, ours.paths) == (theirs.n_splits, theirs.n_test_paths)
    assert ours.path_splits.T.tolist() == theirs.recombined_paths.tolist()


@pytest.mark.parametrize("purge", [0, 2])
@pytest.mark.parametrize("keep_last", [False, True])
def test_walks_forward_are_skfolios(purge, keep_last):
    for walk, expand in ((walk_forward_anchored, True), (walk_forward_rolling, False)):
        theirs = WalkForward(test_size=10, train_size=30, expand_train=expand, reduce_test=keep_last, purged_size=purge)
        ours = walk(105, 30, 10, purge=purge, keep_last=keep_last)
        for split, (train, test) in zip(ours, theirs.split(np.zeros((105, 1))), strict=True):
            assert (split.train.tolist(), split.test.tolist()) == (train.tolist(), test.tolist())


@pytest.mark.parametrize("gap", [0, 3])
def test_walks_forward_are_sklearns(gap):
    periods, splits, size = 100, 5, 8
    train = periods - splits * size - gap
    for walk, longest in ((walk_forward_anchored, None), (walk_forward_rolling, train)):
        theirs = TimeSeriesSplit(splits, test_size=size, gap=gap, max_train_size=longest)
        ours = walk(periods, train, size, purge=gap)
        for split, (first, test) in zip(ours, theirs.split(np.zeros((periods, 1))), strict=True):
            assert (split.train.tolist(), split.test.tolist()) == (first.tolist(), test.tolist())


@pytest.mark.parametrize("seed", range(4))
def test_the_probability_of_backtest_overfitting_is_purgedcvs(seed):
    table = 0.01 * np.random.default_rng(seed).standard_normal((240, 10)) + 0.0002 * np.arange(10)
    theirs = purgedcv_pbo(table.T, n_splits=6)
    ours = probability_of_backtest_overfitting(table, 6)
    assert ours.probability == pytest.approx(theirs.pbo, abs=1e-10)
    assert ours.slope == pytest.approx(theirs.slope, abs=1e-10)


@pytest.mark.parametrize("seed", range(20))
def test_adjusted_p_values_are_those_of_statsmodels(seed):
    rng = np.random.default_rng(seed)
    p_values = np.concatenate([rng.random(20) ** 3, np.repeat(rng.random(4), 3), [0.0, 1.0]])
    for test, method in ((benjamini_hochberg, "fdr_bh"), (holm_bonferroni, "holm")):
        found = test(p_values, 0.05)
        rejected, adjusted, *_ = multipletests(p_values, 0.05, method)
        assert found.adjusted.tolist() == adjusted.tolist()
        assert found.rejected.tolist() == rejected.tolist()
    assert benjamini_hochberg(p_values).adjusted.tolist() == pytest.approx(stats.false_discovery_control(p_values))

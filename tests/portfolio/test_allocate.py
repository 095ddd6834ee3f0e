"""Allocators by hand and against skfolio and the policies of the same name."""

import numpy as np
import pytest

from alphaswarm_rl.core.errors import ComponentError
from alphaswarm_rl.core.kinds import PortfolioStage
from alphaswarm_rl.market.covariance import bar_returns
from alphaswarm_rl.statistics.allocations import TrailingWeights
from tests.actions.views import panel_of, view_of
from tests.envs.panels import random_panel
from tests.portfolio.stages import market_for, panel_for, parts_of, stage

LOOKBACK = 30
OPTIMISING = ("inverse_volatility", "minimum_variance", "mean_variance", "hierarchical_risk_parity")


def steady(bars=60, assets=5):
    return random_panel(7, bars=bars, assets=assets, gaps=False)


def allocation(panel, *stages):
    return parts_of(stages, market_for(panel), 1)[-1].state["allocation"]


def softmax(weights, selected=None, **kwargs):
    view = view_of([[0] * len(weights)], prices=(10.0,) * len(weights))
    state = {} if selected is None else {"selected": np.array([selected] * 3)}
    out = np.array([weights], float)
    stage("softmax", **(kwargs or {"temperature": 1.0})).step(view, state, out)
    return out[0]


def test_softmax_is_that_of_the_weights_over_what_is_selected():
    expected = np.exp([0.1, 0.4]) / np.exp([0.1, 0.4]).sum()
    np.testing.assert_allclose(softmax([0.1, 0.4]), expected)
    np.testing.assert_allclose(softmax([0.1, 0.9, 0.4], [True, False, True]), [expected[0], 0.0, expected[1]])


def test_a_low_temperature_gives_all_to_the_largest_and_never_overflows():
    np.testing.assert_allclose(softmax([0.1, 5.0, 0.4], temperature=1e-3), [0.0, 1.0, 0.0], atol=1e-15)
    np.testing.assert_allclose(softmax([0.1, 5.0, 0.4], temperature=1e6), [1 / 3] * 3, rtol=1e-5)


def test_softmax_of_nothing_is_nothing():
    assert softmax([0.1, 0.9], [False, False]).tolist() == [0.0, 0.0]


def test_equal_weights_are_over_what_is_selected_and_can_be_traded():
    panel = panel_of([[10, 10, 10], [10, np.nan, 10], [10, 10, 10]])
    found = allocation(panel, stage("static_universe", symbols=["A0", "A1"]), stage("equal_weight"))
    assert found.tolist() == [[0.5, 0.5, 0], [1, 0, 0], [0.5, 0.5, 0]]


@pytest.mark.parametrize("alias", OPTIMISING)
def test_weights_are_long_only_and_all_of_the_equity_at_every_bar(alias):
    panel = panel_for()
    found = allocation(panel, stage(alias, lookback=10, rebalance="bar"))
    assert (found >= 0).all()
    tradable = panel.tradable.any(axis=1)
    np.testing.assert_allclose(found[tradable].sum(axis=1), 1.0, rtol=1e-12)
    assert (found[~np.isfinite(panel.close)] == 0).all()


@pytest.mark.parametrize("alias", OPTIMISING)
def test_before_the_lookback_is_there_weights_are_equal(alias):
    found = allocation(steady(), stage(alias, lookback=LOOKBACK, rebalance="bar"))
    np.testing.assert_allclose(found[:LOOKBACK], 0.2)
    assert (np.ptp(found[LOOKBACK:], axis=1) > 0.01).all()


def skfolio_weights(alias, returns):
    from skfolio.optimization import HierarchicalRiskParity, InverseVolatility, MeanRisk, ObjectiveFunction

    model = {
        "inverse_volatility": InverseVolatility(),
        "minimum_variance": MeanRisk(objective_function=ObjectiveFunction.MINIMIZE_RISK),
        "mean_variance": MeanRisk(objective_function=ObjectiveFunction.MAXIMIZE_UTILITY, risk_aversion=2.0),
        "hierarchical_risk_parity": HierarchicalRiskParity(),
    }[alias]
    return model.fit(returns).weights_


@pytest.mark.parametrize("alias", OPTIMISING)
def test_they_are_skfolios(alias):
    panel = steady()
    more = {"risk_aversion": 2.0} if alias == "mean_variance" else {}
    found = allocation(panel, stage(alias, lookback=LOOKBACK, rebalance="bar", **more))
    expected = skfolio_weights(alias, bar_returns(panel)[50 - LOOKBACK + 1 : 51])
    np.testing.assert_allclose(found[50], expected, atol=2e-4)


@pytest.mark.parametrize(("alias", "method"), [("minimum_variance", "minimum_variance"), ("mean_variance", "utility")])
def test_they_are_what_the_policies_of_that_name_aim_at(alias, method):
    panel = steady()
    found = allocation(panel, stage(alias, lookback=LOOKBACK, rebalance="bar"))
    of_policy = TrailingWeights("policy", LOOKBACK, method)
    np.testing.assert_array_equal(found[45], of_policy(panel, 45))


def test_only_what_is_selected_takes_part():
    panel = steady()
    stages = stage("static_universe", symbols=["A1", "A3"]), stage("hrp", lookback=LOOKBACK, rebalance="bar")
    found = allocation(panel, *stages)
    assert (found[:, [0, 2, 4]] == 0).all()
    returns = bar_returns(panel)[50 - LOOKBACK + 1 : 51, [1, 3]]
    np.testing.assert_allclose(found[50, [1, 3]], skfolio_weights("hierarchical_risk_parity", returns), atol=1e-6)


def test_what_it_allocated_holds_until_the_period_is_over():
    panel = steady()
    found = allocation(panel, stage("inverse_volatility", lookback=10, rebalance="month"))
    months = panel.timestamps.astype("datetime64[M]")
    changed = (found[1:] != found[:-1]).any(axis=1)
    assert changed.any()
    assert not changed[months[1:] == months[:-1]].any()


def test_between_two_periods_what_is_deselected_is_cash():
    panel = steady()
    stages = stage("momentum", k=2, lookback=5), stage("inverse_volatility", lookback=10, rebalance="month")
    part = parts_of(stages, market_for(panel), 1)[-1]
    view = view_of([[0] * 5], prices=(10.0,) * 5)
    view.market = market_for(panel)
    sums = []
    for bar in range(35, 60):
        view.bar[:] = bar
        out = np.zeros((1, 5))
        part.step(view, out)
        assert (out[0][~part.selected[bar]] == 0).all()
        sums.append(out.sum())
    assert min(sums) < 0.99


def test_the_policys_weights_play_no_part():
    panel = steady()
    (part,) = parts_of([stage("equal_weight")], market_for(panel), 1)
    view = view_of([[0] * 5], prices=(10.0,) * 5)
    view.market = market_for(panel)
    out = np.full((1, 5), 7.0)
    part.step(view, out)
    np.testing.assert_allclose(out, 0.2)


class Unsure(PortfolioStage):
    """Allocates what is no number."""

    rl_alias = "portfolio_test_unsure"
    role = "allocate"

    def allocations(self, panel, bars, selected):
        return np.where(bars[:, None] == 2, np.nan, 0.5) * np.ones(panel.num_assets)

    def step(self, view, state, out):
        view.take(state["allocation"], out)


def test_a_weight_that_is_no_number_is_an_error_with_its_date():
    with pytest.raises(ComponentError, match=r"'portfolio_test_unsure' at 2024-01-03.*finite"):
        allocation(panel_of(np.full((4, 2), 10.0)), Unsure())


def test_what_cannot_be_solved_names_the_stage_and_the_date(monkeypatch):
    from skfolio.optimization import HierarchicalRiskParity

    def fail(self, returns):
        raise ValueError("no clusters")

    monkeypatch.setattr(HierarchicalRiskParity, "fit", fail)
    with pytest.raises(ComponentError, match=r"portfolio stage 'hierarchical_risk_parity' at 2020.*no clusters"):
        allocation(steady(), stage("hrp", lookback=10))

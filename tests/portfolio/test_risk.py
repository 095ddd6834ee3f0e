"""Limits hold for whatever comes in; what is cut is cash; losses sell everything."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from alphaswarm_rl.arrays.backend import NUMPY_ARRAYS as XP
from alphaswarm_rl.core.errors import ComponentError
from alphaswarm_rl.core.refs import reference
from alphaswarm_rl.core.risk_limits import RiskLimits
from alphaswarm_rl.market.panel import MarketPanel
from alphaswarm_rl.market.stages import stage_parts
from alphaswarm_rl.portfolio import limits as rules
from alphaswarm_rl.portfolio.risk import RiskStage
from tests.actions.views import view_of
from tests.portfolio.stages import accounts, market_for, panel_for, run, stage

ASSETS = 5
CLOSE = 1e-9
numbers = st.floats(-3.0, 3.0, allow_nan=False, width=64)
any_weights = arrays(np.float64, (3, ASSETS), elements=st.one_of(numbers, st.sampled_from([0.0, 0.5, -0.5, 1e-9])))
a_limit = st.floats(0.01, 2.0)
or_nothing = st.one_of(st.just(0.0), st.floats(0.001, 1.0))
any_limits = st.fixed_dictionaries(
    {},
    optional={
        "max_position": a_limit,
        "max_gross": a_limit,
        "max_net": or_nothing,
        "max_concentration": st.one_of(st.floats(0.05, 1.0), st.sampled_from([0.5, 1 / 3, 0.25, 0.2, 0.125])),
        "max_turnover": or_nothing,
    },
).filter(bool)

#: The stage of each limit by itself.
SINGLE = {
    "max_position": "position_cap",
    "max_gross": "gross_exposure",
    "max_net": "net_exposure",
    "max_concentration": "concentration",
    "max_turnover": "turnover",
}


def limited(weights, limits, held):
    """The weights within the limits, where these weights are held."""
    view = view_of(weights, prices=(10.0,) * weights.shape[1], positions=held * 100.0)
    view.value[:] = 1000.0
    np.testing.assert_allclose(view.weights, held, atol=1e-12)
    out = weights.copy()
    rules.limit(view, limits, out)
    return out


def assert_within(limits, weights, held, given):
    found = {
        "max_position": np.abs(weights).max(axis=1),
        "max_gross": rules.gross(XP, weights),
        "max_net": np.abs(weights.sum(axis=1)),
        "max_turnover": np.where(
            weights * held > 0, np.maximum(np.abs(weights) - np.abs(held), 0), np.abs(weights)
        ).sum(1),
        "max_concentration": rules.concentration(XP, weights),
    }
    for name, limit in limits.items():
        assert (found[name] <= limit + CLOSE).all(), (name, limit, found[name])
    assert (np.abs(weights) <= np.abs(given) * (1 + 1e-12)).all()
    assert (weights * given >= 0).all()


@settings(max_examples=400, deadline=None)
@given(weights=any_weights, held=any_weights, limits=any_limits)
def test_all_limits_hold_at_once_for_whatever_comes_in(weights, held, limits):
    given_before, held_before = weights.copy(), held.copy()
    out = limited(weights, RiskLimits(**limits), held)
    assert_within(limits, out, held, weights)
    np.testing.assert_array_equal(weights, given_before)
    np.testing.assert_array_equal(held, held_before)
    again = limited(out, RiskLimits(**limits), held)
    np.testing.assert_allclose(again, out, rtol=1e-9, atol=1e-12)


@settings(max_examples=200, deadline=None)
@given(data=st.data(), weights=any_weights, limits=any_limits)
def test_they_hold_in_whatever_order_stages_of_one_limit_each_stand(data, weights, limits):
    order = data.draw(st.permutations(sorted(limits)))
    view = accounts(MARKET, 3)
    stages = [stage(SINGLE[name], **{name: limits[name]}) for name in order]
    out = run(stage_parts(stages, MARKET, 3), view, weights)[-1]
    assert_within(limits, out, view.weights, weights)


MARKET = market_for(panel_for())


@settings(max_examples=200, deadline=None)
@given(weights=any_weights, limits=any_limits)
def test_weights_within_the_limits_stay_as_they_are_bit_for_bit(weights, limits):
    limits.pop("max_turnover", None)
    small = weights * 1e-3
    within = RiskLimits(**limits)
    if (rules.concentration(XP, small) <= limits.get("max_concentration", 1.0)).all() and (
        rules.net(XP, small) <= limits.get("max_net", 10.0)
    ).all():
        np.testing.assert_array_equal(limited(small, within, 0.0 * small), small)


def kept(alias, weights, held=None, **limits):
    view = view_of([[0, 0]], positions=held)
    out = np.array([weights], float)
    stage(alias, **limits).step(view, {}, out)
    return out[0].tolist()


def test_a_position_is_cut_and_the_rest_is_cash():
    assert kept("position_cap", [0.6, -0.5], max_position=0.4) == [0.4, -0.4]


def test_gross_exposure_scales_all():
    assert kept("gross_exposure", [1.5, -0.5], max_gross=1.0) == [0.75, -0.25]


def test_net_exposure_scales_the_heavier_side():
    assert kept("net_exposure", [0.8, -0.2], max_net=0.2) == pytest.approx([0.4, -0.2])
    assert kept("net_exposure", [0.2, -0.8], max_net=0.2) == pytest.approx([0.2, -0.4])
    assert kept("net_exposure", [0.5, -0.4], max_net=0.2) == [0.5, -0.4]


def test_concentration_cuts_the_largest_to_one_size():
    out = rules.within_concentration(XP, np.array([[0.6, 0.2, 0.1, 0.1]]), 0.4)
    # x = 0.4 (x + 0.4): the largest the others allow.
    np.testing.assert_allclose(out, [[0.4 * 0.4 / 0.6, 0.2, 0.1, 0.1]])
    out = rules.within_concentration(XP, np.array([[0.5, 0.4, -0.1]]), 0.4)
    np.testing.assert_allclose(out, [[0.2, 0.2, -0.1]])


@pytest.mark.parametrize(
    ("weights", "most", "left"),
    [
        ([0.6, 0.0], 0.5, [0.0, 0.0]),
        ([0.6, 0.2], 0.5, [0.2, 0.2]),
        ([0.6, 0.2], 0.4, [0.0, 0.0]),
        ([0.6, 0.2], 1.0, [0.6, 0.2]),
        ([0.0, 0.0], 0.5, [0.0, 0.0]),
        ([0.3, 0.3, 0.3], 1 / 3, [0.3, 0.3, 0.3]),
    ],
)
def test_too_few_assets_leave_nothing_to_hold(weights, most, left):
    np.testing.assert_allclose(rules.within_concentration(XP, np.array([weights]), most), [left], atol=1e-15)


def test_where_scaling_one_side_concentrates_too_much_both_are_scaled():
    weights = np.array([[*[0.1] * 10, -0.4]])
    limits = RiskLimits(max_net=0.0, max_concentration=0.3)
    np.testing.assert_array_equal(limited(weights, limits, 0.0 * weights), 0.0)
    found = limited(weights, RiskLimits(max_net=0.0), 0.0 * weights)
    np.testing.assert_allclose(found, [[*[0.04] * 10, -0.4]])


def test_turnover_limits_increases_and_lets_reductions_pass():
    # 10 units at 10 and 20 units at 20 of 1500 in all: a fifteenth and four fifteenths.
    held = [[10.0, 20.0]]
    found = kept("turnover", [0.5, 0.0], held, max_turnover=0.1)
    assert found == pytest.approx([100 / 1500 + 0.1, 0.0])
    assert kept("turnover", [0.0, 0.0], held, max_turnover=0.0) == [0.0, 0.0]


def test_changing_sides_is_an_increase_from_nothing():
    assert kept("turnover", [-0.5, 400 / 1500], [[10.0, 20.0]], max_turnover=0.2) == pytest.approx([-0.2, 400 / 1500])


class Account:
    """One account whose equity is told bar by bar, and what a stage leaves of a weight of a half."""

    def __init__(self, alias, hours=24, **limits):
        start = np.datetime64("2024-01-01T00", "ns")
        times = start + np.arange(40) * np.timedelta64(hours, "h")
        panel = MarketPanel.from_arrays({"timestamps": times, "assets": ["A0"], "close": np.full((40, 1), 10.0)})
        (self.part,) = stage_parts([stage(alias, **limits)], market_for(panel), 1)
        self.view = accounts(market_for(panel), 1, first=0)
        self.view.bar[:] = self.view.start[:] = 0
        self.view.value[:] = self.view.value_before[:] = 100.0

    def invested(self, *values):
        """Whether anything is left after each of these equities."""
        found = []
        for value in values:
            self.view.value[:] = value
            out = np.array([[0.5]])
            self.part.step(self.view, out)
            found.append(bool(out[0, 0]))
            self.view.value_before[:] = value
            self.view.bar += 1
        return found


def test_a_drawdown_sells_everything_to_the_end_of_the_episode():
    account = Account("drawdown", max_drawdown=0.1)
    assert account.invested(100, 120, 109, 108, 120, 130) == [True, True, True, False, False, False]
    account.part.begin(np.array([0]))
    assert account.invested(80, 79) == [True, True]


def test_after_the_cooldown_the_highest_equity_is_counted_anew():
    account = Account("drawdown", max_drawdown=0.1, cooldown_bars=2)
    assert account.invested(100, 90, 90, 90, 82, 81) == [True, False, False, True, True, False]


def test_a_daily_loss_sells_everything_for_the_rest_of_the_day():
    account = Account("daily_loss", hours=8, max_daily_loss=0.05)
    # Three bars a day; the second day begins with 96.
    assert account.invested(100, 94.9, 96, 96, 92, 91.1) == [True, False, False, True, True, False]
    assert account.invested(91, 91) == [True, True]


def test_with_one_bar_a_day_the_next_decision_is_free_again():
    assert Account("daily_loss", max_daily_loss=0.05).invested(100, 95, 95, 90.2) == [True, False, True, False]


def test_what_was_measured_breaks_the_limit_exactly_where_something_was_cut():
    view, rng = accounts(MARKET, 32), np.random.default_rng(0)
    weights = rng.normal(size=(32, ASSETS)) * rng.uniform(0.01, 0.3, (32, 1))
    for name, alias in SINGLE.items():
        (part,) = stage_parts([stage(alias, **{name: 0.3})], MARKET, 32)
        found = part.measured(view, weights)[:, 0]
        (out,) = run([part], view, weights)
        np.testing.assert_array_equal(found > 0.3, (out != weights).any(axis=1), err_msg=name)
        assert (found > 0.3).any()
        assert (found <= 0.3).any(), name


@pytest.mark.parametrize(
    ("alias", "seeds", "ours"),
    [
        ("position_cap", "max_position_pct", "max_position"),
        ("gross_exposure", "max_gross_exposure", "max_gross"),
        ("net_exposure", "max_net_exposure", "max_net"),
        ("concentration", "max_concentration_pct", "max_concentration"),
        ("turnover", "max_turnover_pct", "max_turnover"),
        ("daily_loss", "max_daily_loss_pct", "max_daily_loss"),
        ("drawdown", "max_drawdown_pct", "max_drawdown"),
        ("risk_limits", "max_drawdown_pct", "max_drawdown"),
    ],
)
def test_limits_have_the_names_of_other_documents(alias, seeds, ours):
    first, second = (reference({"class": alias, "kwargs": {name: 0.25}}, "portfolio_stage") for name in (seeds, ours))
    assert first == second
    assert first.kwargs[ours] == 0.25
    with pytest.raises(ComponentError, match="one limit"):
        reference({"class": alias, "kwargs": {seeds: 0.25, ours: 0.25}}, "portfolio_stage")


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [({}, "at least one limit"), ({"max_position": 0}, "max_position"), ({"max_concentration": 1.5}, "max_conc")],
)
def test_limits_that_mean_nothing_are_refused(kwargs, match):
    with pytest.raises(ComponentError, match=match):
        reference({"class": "stacked", "kwargs": kwargs}, "portfolio_stage")


def test_every_limit_has_a_stage_of_its_own_and_all_are_of_one_model():
    every = {name for name in RiskLimits.model_fields if name != "cooldown_bars"}
    single = {alias: stage(alias).limits().set_limits() for alias in (*SINGLE.values(), "daily_loss", "drawdown")}
    assert {name for limits in single.values() for name in limits} == every
    assert all(len(limits) == 1 for limits in single.values())
    assert isinstance(stage("risk_limits", max_gross=1.0), RiskStage)

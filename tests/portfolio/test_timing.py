"""How much of the weights is held, by hand."""

import numpy as np
import pytest

from alphaswarm_rl.core.errors import ComponentError, DataError
from alphaswarm_rl.core.refs import reference
from tests.actions.views import panel_of
from tests.envs.panels import random_panel
from tests.portfolio.stages import accounts, market_for, parts_of, stage


def scales(panel, timing, *bars, weights=None):
    """What the stage multiplies weights by at these bars."""
    market = market_for(panel)
    (part,) = parts_of([timing], market, len(bars))
    view = accounts(market, len(bars), first=0)
    view.bar[:] = bars
    given = np.tile(np.full(panel.num_assets, 0.1) if weights is None else weights, (len(bars), 1))
    out = given.copy()
    part.step(view, out)
    return np.abs(out).sum(axis=1) / np.abs(given).sum(axis=1)


def turbulent(*values):
    return panel_of(np.full((len(values), 2), 10.0)).with_market_features({"turbulence": np.array(values, float)})


def test_constant_timing_keeps_a_part():
    np.testing.assert_allclose(scales(turbulent(0, 0), stage("constant", scale=0.25), 0, 1), 0.25)


def test_in_turbulence_nothing_is_held():
    found = scales(turbulent(100, 140, 139, 500), stage("turbulence", threshold=140.0), 0, 1, 2, 3)
    assert found.tolist() == [1.0, 0.0, 1.0, 0.0]


def test_the_cooldown_keeps_the_scale_for_some_bars_longer():
    panel = turbulent(1, 5, 1, 1, 1, 5, 5, 1)
    found = scales(panel, stage("turbulence", threshold=5.0, scale=0.5, cooldown_bars=2), *range(8))
    assert found.tolist() == [1.0, 0.5, 0.5, 0.5, 1.0, 0.5, 0.5, 0.5]


def test_smoothing_lets_the_scale_fall_with_the_excess():
    panel = turbulent(1, 6, 7, 50, 1, 1)
    timing = stage("turbulence", threshold=5.0, scale=0.1, smoothing=0.5, cooldown_bars=1)
    np.testing.assert_allclose(scales(panel, timing, *range(6)), [1, np.exp(-0.5), np.exp(-1), 0.1, 0.1, 1])


def test_turbulence_that_the_panel_lacks_is_an_error_by_name():
    with pytest.raises(DataError, match=r"'turbulence'.*portfolio stage 'turbulence'"):
        parts_of([stage("turbulence")], market_for(panel_of(np.full((3, 2), 10.0))), 1)


def test_a_volatility_target_scales_by_what_the_weights_would_have_varied():
    panel = random_panel(5, bars=50, assets=3, gaps=False)
    weights, lookback = np.array([0.5, 0.8, -0.3]), 20
    returns = panel.close[1:] / panel.close[:-1] - 1
    varied = (returns[40 - lookback : 40] @ weights).std(ddof=1) * np.sqrt(panel.periods_per_year)
    found = scales(panel, stage("volatility_target", target=0.1, lookback=lookback), 40, weights=weights)
    np.testing.assert_allclose(found, 0.1 / varied)


def test_no_scale_is_above_one_or_its_own_largest():
    panel = random_panel(5, bars=50, assets=3, gaps=False)
    assert scales(panel, stage("volatility_target", target=50.0), 40).tolist() == [1.0]
    np.testing.assert_allclose(scales(panel, stage("volatility_target", target=50.0, max_scale=0.4), 40), 0.4)
    with pytest.raises(ComponentError, match="max_scale"):
        reference({"class": "volatility_target", "kwargs": {"max_scale": 2}}, "portfolio_stage")


def test_still_prices_have_no_volatility_to_scale_for():
    assert scales(panel_of(np.full((30, 2), 10.0)), stage("volatility_target"), 25).tolist() == [1.0]


def test_splits_and_dividends_are_no_volatility():
    close, splits, dividends = np.full((30, 1), 10.0), np.ones((30, 1)), np.zeros((30, 1))
    close[15:], splits[15] = 5.0, 2.0
    close[20:], dividends[20] = 4.0, 1.0
    panel = panel_of(close, splits=splits, dividends=dividends)
    assert scales(panel, stage("volatility_target", target=0.01), 25).tolist() == [1.0]

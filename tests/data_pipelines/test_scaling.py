"""Scalers: learnt once, from the training window alone."""

import numpy as np
import pytest

from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.data_pipelines.features import add_indicators
from alphaswarm_rl.data_pipelines.scaling import apply_scaler, fit_scaler
from alphaswarm_rl.market.panel import MarketPanel
from tests.market.panels import bars, gappy


def featured(frame):
    panel = add_indicators(MarketPanel.from_frame(frame, feature_dtype="float64"), ["rsi_5", "close_5_sma"])
    return panel.with_market_features({"m": np.arange(float(panel.num_bars))})


def test_zscore_standardises_each_feature_of_each_asset_where_it_counts():
    panel = featured(gappy(90))
    scaled = apply_scaler(panel, fit_scaler("zscore", panel))
    for asset in range(3):
        for feature in range(2):
            counts = panel.tradable[:, asset] & (np.arange(90) >= panel.feature_from[asset, feature])
            values = scaled.features[counts, asset, feature]
            assert values.mean() == pytest.approx(0, abs=1e-9)
            assert values.std() == pytest.approx(1)
    np.testing.assert_array_equal(scaled.market_features, panel.market_features, err_msg="limits are in its own units")


def test_minmax_maps_training_to_0_and_1_and_lets_later_values_go_beyond():
    panel = featured(bars(90))
    cut = panel.timestamps[60]
    state = fit_scaler("minmax", panel.window(end=cut))
    scaled = apply_scaler(panel, state)
    values = scaled.features[5:60]
    np.testing.assert_allclose(values.min(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(values.max(axis=0), 1)
    assert scaled.features[-1].max() > 1


@pytest.mark.parametrize("scaler", ["zscore", "minmax"])
def test_warm_up_and_evaluation_teach_nothing(scaler):
    panel = featured(bars(90))
    window = panel.window(panel.timestamps[30], panel.timestamps[60], warmup_bars=20)
    bare = panel.window(panel.timestamps[30], panel.timestamps[60])
    other = fit_scaler(scaler, bare)
    for name, array in fit_scaler(scaler, window).arrays.items():
        np.testing.assert_array_equal(array, other.arrays[name])


@pytest.mark.parametrize("scaler", ["zscore", "minmax"])
def test_an_asset_without_a_bar_takes_the_scale_of_all_and_a_constant_stays_finite(scaler):
    panel = featured(gappy(90)).with_features({"one": np.full((90, 3), 0.1)})
    young = panel.window(end=panel.timestamps[5])
    state = fit_scaler(scaler, young)
    assert all(np.isfinite(array).all() for array in state.arrays.values())
    assert (state.arrays["scale"][:, 2] == 1).all()
    assert np.isfinite(apply_scaler(panel, state).features).all()


def test_none_changes_nothing_and_other_data_is_refused():
    panel = featured(bars(90))
    assert apply_scaler(panel, fit_scaler("none", panel)) is panel
    state = fit_scaler("zscore", panel)
    with pytest.raises(DataError, match="assets"):
        apply_scaler(panel.select(["AAA", "CCC"]), state)
    with pytest.raises(DataError, match="features"):
        apply_scaler(panel.with_features({"x": np.zeros((90, 3))}), state)
    assert apply_scaler(panel, state).fingerprint == apply_scaler(panel, state).fingerprint

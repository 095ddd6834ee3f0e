"""Synthetic bars: what each model promises."""

import numpy as np
import pytest

from alphaswarm_rl.core.contracts import DataRequest
from alphaswarm_rl.core.errors import ComponentError
from alphaswarm_rl.core.refs import build_from_config, reference
from alphaswarm_rl.core.window import Window
from alphaswarm_rl.data_pipelines import synthetic  # noqa: F401  (registers)
from alphaswarm_rl.data_pipelines.synthetic import MODEL_PARAMETERS

MODELS = sorted(MODEL_PARAMETERS)


def build(request=None, **kwargs):
    pipeline = build_from_config({"class": "synthetic", "kwargs": kwargs}, kind="data_pipeline")
    return pipeline.build(request or DataRequest(seed=7))


def log_returns(panel):
    return np.diff(np.log(panel.close), axis=0)


@pytest.mark.parametrize("model", MODELS)
def test_bars_are_whole(model):
    panel = build(model=model, n_bars=300)
    assert (panel.low <= np.minimum(panel.open, panel.close)).all()
    assert (panel.high >= np.maximum(panel.open, panel.close)).all()
    assert (panel.low > 0).all()
    assert (panel.volume > 0).all()
    assert panel.tradable.all()
    assert panel.periods_per_year == 252


@pytest.mark.parametrize("model", MODELS)
def test_one_seed_one_panel(model):
    assert build(model=model).fingerprint == build(model=model).fingerprint
    assert build(model=model, seed=7).fingerprint == build(model=model).fingerprint
    assert build(model=model, seed=8).fingerprint != build(model=model).fingerprint
    assert build(DataRequest(seed=8), model=model, seed=7).fingerprint == build(model=model).fingerprint


@pytest.mark.parametrize("model", MODELS)
def test_asset_i_and_bar_t_depend_on_neither_number(model):
    """The same bars again when more are asked for: nothing at t knows what follows."""
    large = build(model=model, n_assets=4, n_bars=200)
    small = build(model=model, n_assets=2, n_bars=120)
    for name in ("timestamps", "open", "high", "low", "close", "volume"):
        whole = getattr(large, name)
        part = whole[:120] if whole.ndim == 1 else whole[:120, :2]
        np.testing.assert_array_equal(part, getattr(small, name))


def test_gbm_has_its_drift_volatility_and_correlation():
    panel = build(model="gbm", n_assets=3, n_bars=50_000, drift=0.1, volatility=0.3, correlation=0.5)
    returns = log_returns(panel)
    np.testing.assert_allclose(returns.std(axis=0) * np.sqrt(252), 0.3, rtol=0.02)
    np.testing.assert_allclose(np.corrcoef(returns, rowvar=False)[np.triu_indices(3, 1)], 0.5, atol=0.02)
    # The mean of n returns has a standard error of 0.3 / sqrt(n / 252), here about 0.02.
    np.testing.assert_allclose(returns.mean(axis=0) * 252, 0.1 - 0.3**2 / 2, atol=0.08)


def test_ornstein_uhlenbeck_returns_to_where_it_started():
    panel = build(model="ou", n_assets=2, n_bars=50_000, volatility=0.2, mean_reversion=10.0)
    level = np.log(panel.close / 100)
    # The stationary variance is volatility**2 / (2 * speed).
    np.testing.assert_allclose(level[500:].std(axis=0), 0.2 / np.sqrt(20), rtol=0.1)
    np.testing.assert_allclose(level.mean(axis=0), 0, atol=0.01)


def test_regimes_have_two_volatilities():
    panel = build(model="regime_switching", n_assets=1, n_bars=20_000, volatility=0.1, stress_volatility=0.8)
    size = np.abs(log_returns(panel)[:, 0])
    blocks = size[: len(size) // 20 * 20].reshape(-1, 20).mean(axis=1)
    assert np.quantile(blocks, 0.9) > 5 * np.quantile(blocks, 0.1)


def test_jumps_come_at_their_rate_and_keep_the_expected_growth():
    panel = build(
        model="jumps", n_assets=1, n_bars=50_000, volatility=0.05, drift=0.0, jump_rate=12.0, jump_mean=-0.1,
        jump_deviation=0.01,
    )  # fmt: skip
    returns = log_returns(panel)[:, 0]
    assert (returns < -0.05).mean() * 252 == pytest.approx(12, rel=0.1)
    assert np.expm1(returns).mean() * 252 == pytest.approx(0, abs=0.05)


def test_garch_clusters_around_its_long_run_variance():
    panel = build(model="garch", n_assets=1, n_bars=50_000, volatility=0.2, garch_alpha=0.1, garch_beta=0.85)
    returns = log_returns(panel)[:, 0]
    assert returns.std() * np.sqrt(252) == pytest.approx(0.2, rel=0.1)
    squares = returns**2
    assert np.corrcoef(squares[1:], squares[:-1])[0, 1] > 0.1
    assert abs(np.corrcoef(returns[1:], returns[:-1])[0, 1]) < 0.03


def test_the_oracle_knows_the_next_return_and_is_marked():
    panel = build(model="oracle", n_bars=50, feature_dtype="float64", features=["returns"])
    assert panel.feature_names == ("next_return", "returns")
    assert panel.training_only_features == {"next_return"}
    np.testing.assert_allclose(panel.features[:-1, :, 0], panel.close[1:] / panel.close[:-1] - 1)
    assert (panel.features[-1, :, 0] == 0).all()


def test_the_noise_says_nothing():
    panel = build(model="noise", n_assets=1, n_bars=50_000, feature_dtype="float64")
    assert panel.feature_names == ("noise",)
    assert not panel.training_only_features
    following = np.diff(panel.close[:, 0]) / panel.close[:-1, 0]
    assert abs(np.corrcoef(panel.features[:-1, 0, 0], following)[0, 1]) < 0.02
    assert following.mean() * 252 == pytest.approx(0, abs=0.06)


@pytest.mark.parametrize(
    ("bar", "weekends", "per_year", "second", "weekday_six"),
    [
        ("1d", False, 252, "2020-01-02", False),
        ("1d", True, 365, "2020-01-02", True),
        ("1h", True, 365 * 24, "2020-01-01T01", True),
        ("15m", False, 252 * 96, "2020-01-01T00:15", False),
    ],
)
def test_bars_of_any_length(bar, weekends, per_year, second, weekday_six):
    panel = build(bar=bar, weekends=weekends, n_bars=2000)
    assert panel.periods_per_year == per_year
    assert panel.timestamps[1] == np.datetime64(second)
    weekdays = (panel.timestamps.astype("datetime64[D]").astype(int) + 3) % 7
    assert (6 in weekdays) == weekday_six


def test_a_window_of_it():
    panel = build(DataRequest(Window("2020-06-01", "2020-07-01"), warmup_bars=5, seed=7))
    assert panel.warmup == 5
    assert panel.timestamps[5] == np.datetime64("2020-06-01")
    assert build(DataRequest(seed=7, symbols=("SYN3", "SYN0"))).assets == ("SYN3", "SYN0")


def test_the_numbers_that_are_used_are_in_the_reference():
    ref = reference({"class": "synthetic", "kwargs": {"model": "garch"}}, "data_pipeline")
    assert ref.kwargs["garch_alpha"] == 0.08
    assert ref.kwargs["jump_rate"] is None


@pytest.mark.parametrize(
    ("kwargs", "text"),
    [
        ({"model": "noise", "drift": 0.1}, "'noise' has no parameter 'drift'"),
        ({"model": "gbm", "jump_rate": 3}, "'gbm' has no parameter 'jump_rate'"),
        ({"model": "garch", "garch_alpha": 0.5, "garch_beta": 0.5}, "below 1"),
        ({"start": "soon"}, "start"),
        ({"correlation": 1.0}, "correlation"),
        ({"n_bars": 1}, "n_bars"),
        ({"model": "heston"}, "model"),
    ],
)
def test_parameters_that_would_not_work_are_refused(kwargs, text):
    with pytest.raises(ComponentError, match=text):
        build(**kwargs)

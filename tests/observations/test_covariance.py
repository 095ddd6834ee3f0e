"""The trailing covariance."""

import numpy as np
import pytest

from alphaswarm_rl.market.panel import MarketPanel
from alphaswarm_rl.observations import covariance as module
from alphaswarm_rl.observations.covariance import Covariance
from tests.observations.panels import at, observed, sample_panel


def tiny(**more):
    """Returns of KO: 10 %, -10 %, 0 (a gap), 20 %; PEP starts at bar 2 and then returns 10 %, -10 %."""
    nan = np.nan
    close = np.array([[100, nan], [110, nan], [99, 50], [nan, 55], [118.8, 49.5]])
    days = np.datetime64("2024-01-01") + np.arange(5)
    return MarketPanel.from_arrays(
        {"timestamps": days.astype("datetime64[ns]"), "assets": ["KO", "PEP"], "close": close}, **more
    )


def test_it_is_the_sample_covariance_of_the_last_returns():
    builder = Covariance(Covariance.Config(lookback=2, annualise=False))
    assert builder.names(tiny()) == ("cov:KO:KO", "cov:KO:PEP", "cov:PEP:KO", "cov:PEP:PEP")
    # KO 0 and 0.2: mean 0.1, deviations -0.1 and 0.1. PEP 0.1 and -0.1: mean 0.
    assert at(builder, tiny(), 4) == pytest.approx(
        {"cov:KO:KO": 0.02, "cov:KO:PEP": -0.02, "cov:PEP:KO": -0.02, "cov:PEP:PEP": 0.02}
    )


def test_an_asset_without_all_returns_has_zeros_and_the_others_have_not():
    builder = Covariance(Covariance.Config(lookback=2, annualise=False))
    # At bar 3 PEP has one return; KO has -0.1 and 0, with deviations of 0.05.
    assert list(at(builder, tiny(), 3).values()) == pytest.approx([0.005, 0, 0, 0])
    assert observed(builder, tiny(), [0, 1]).tolist() == [[0] * 4, [0] * 4]


def test_the_triangle_leaves_out_what_is_there_twice():
    builder = Covariance(Covariance.Config(lookback=2, annualise=False, triangle=True))
    assert builder.names(tiny()) == ("cov:KO:KO", "cov:KO:PEP", "cov:PEP:PEP")
    assert list(at(builder, tiny(), 4).values()) == pytest.approx([0.02, -0.02, 0.02])


def test_it_is_annualised_by_the_panels_own_year_and_scaled():
    builder = Covariance(Covariance.Config(lookback=2, scale=0.5))
    assert at(builder, tiny(periods_per_year=100), 4)["cov:KO:KO"] == pytest.approx(0.02 * 100 * 0.5)


def test_a_first_decision_has_all_returns():
    assert Covariance().warmup_bars() == 60
    assert (observed(Covariance(Covariance.Config(lookback=6)), sample_panel(), [6])[0][[0, 8]] > 0).all()


def test_chunks_make_no_difference(monkeypatch):
    builder, panel = Covariance(Covariance.Config(lookback=6)), sample_panel()
    whole = builder.prepare(panel)["table"]
    monkeypatch.setattr(module, "_CHUNK", 7)
    np.testing.assert_array_equal(builder.prepare(panel)["table"], whole)


def test_a_table_of_many_bars_is_single_precision():
    assert Covariance().prepare(sample_panel(80))["table"].dtype == np.float32

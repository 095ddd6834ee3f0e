"""Terms that are about risk, and about return for it."""

import math

import numpy as np
import pytest

from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.envs.making import make_env
from alphaswarm_rl.rewards.benchmark_outperformance import BenchmarkOutperformance
from alphaswarm_rl.rewards.inventory_quadratic import InventoryQuadratic
from alphaswarm_rl.rewards.penalties import CashIdle, DrawdownPenalty, MarginCallPenalty, VolatilityPenalty
from alphaswarm_rl.rewards.ratios import Sharpe, Sortino
from alphaswarm_rl.rewards.risk_parity import RiskParity
from alphaswarm_rl.rewards.turbulence_gate import TurbulenceGate
from tests.rewards.episodes import Episode, made, panel_of

RETURNS = np.array([0.01, -0.02, 0.015, 0.005, 0.03, -0.01])


def test_drawdown_penalty_is_the_distance_below_the_peak():
    episode = Episode(made(DrawdownPenalty, weight=2.0))
    assert episode.values(100.0, 90.0, 110.0, 99.0) == pytest.approx([0.0, -0.2, 0.0, -0.2])


def test_drawdown_below_the_threshold_costs_nothing():
    assert Episode(made(DrawdownPenalty, threshold=0.1)).values(95.0, 85.0) == pytest.approx([0.0, -0.05])


def test_volatility_is_that_of_the_last_returns_of_the_window():
    rewards = Episode(made(VolatilityPenalty, weight=2.0, window=3)).returns(*RETURNS)
    expected = [0.0] + [-2.0 * RETURNS[max(0, i - 2) : i + 1].std(ddof=1) for i in range(1, 6)]
    assert rewards == pytest.approx(expected, abs=1e-15)


def test_sharpe_is_annualised_over_the_episode_by_the_panels_bars():
    panel = panel_of(np.full(10, 10.0), periods_per_year=365)
    rewards = Episode(made(Sharpe, min_steps=3), panel).returns(*RETURNS)
    expected = [RETURNS[:i].mean() / RETURNS[:i].std(ddof=1) * math.sqrt(365) for i in range(3, 7)]
    assert rewards == pytest.approx([0.0, 0.0, *expected], rel=1e-9)


def test_sortino_is_annualised_over_the_episode_by_the_panels_bars():
    panel = panel_of(np.full(10, 10.0), periods_per_year=52)
    rewards = Episode(made(Sortino, min_steps=2), panel).returns(*RETURNS)
    expected = [
        RETURNS[:i].mean() / np.sqrt(np.mean(np.minimum(RETURNS[:i], 0) ** 2)) * math.sqrt(52) for i in range(2, 7)
    ]
    assert rewards == pytest.approx([0.0, *expected], rel=1e-9)


@pytest.mark.parametrize("term", [made(Sharpe, min_steps=2), made(Sortino, min_steps=2)])
def test_ratios_without_risk_are_0(term):
    assert Episode(term).values(100.0, 100.0, 100.0) == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("term", [made(Sharpe, min_steps=2), made(Sortino, min_steps=2), made(VolatilityPenalty)])
def test_they_begin_anew_with_every_episode(term):
    episode = Episode(term)
    first = episode.returns(*RETURNS)
    assert episode.begin().returns(*RETURNS) == first


def test_turbulence_gate_is_shut_from_the_threshold_on():
    panel = panel_of(np.full(4, 10.0)).with_market_features({"turbulence": np.array([200.0, 139.0, 140.0, 10.0])})
    assert Episode(made(TurbulenceGate, penalty=2.0), panel).values(100.0, 100.0, 100.0) == [0.0, -2.0, 0.0]


def test_a_panel_without_turbulence_is_refused_when_the_environment_is_built():
    with pytest.raises(DataError, match=r"market feature 'turbulence'.*turbulence_gate.*market_features"):
        make_env(
            "stock_trading", panel=panel_of(np.full(9, 10.0)), reward={"class": "turbulence_gate"}, fill="next_close"
        )


def test_a_margin_call_costs_once():
    episode = Episode(made(MarginCallPenalty, penalty=7.0))
    assert [episode.step(), episode.step(called=True), episode.step()] == [0.0, -7.0, 0.0]


def test_idle_cash_costs_while_nothing_is_held():
    episode = Episode(made(CashIdle, penalty=0.5), panel_of(np.full((4, 2), 10.0)))
    assert [episode.step(), episode.step(positions=[[0.0, -1.0]]), episode.step(positions=0.0)] == [-0.5, 0.0, -0.5]


def test_inventory_is_squared_in_units_or_in_weights():
    panel = panel_of([[10.0, 20.0]] * 3)
    for measure, expected in {"units": 9.0 + 4.0, "weights": 0.3**2 + 0.4**2}.items():
        episode = Episode(made(InventoryQuadratic, phi=0.1, measure=measure), panel)
        assert episode.step(positions=[[3.0, -2.0]]) == pytest.approx(-0.1 * expected)


def test_the_benchmark_is_the_mean_of_what_trades_at_both_bars():
    nan = np.nan
    panel = panel_of([[10.0, 20.0, nan], [11.0, nan, 5.0], [12.1, 22.0, 6.0], [12.1, 24.2, 6.0]])
    rewards = Episode(BenchmarkOutperformance(), panel).values(100.0, 100.0, 100.0)
    assert rewards == pytest.approx([-0.1, -(0.1 + 0.2) / 2, -0.1 / 3])


def test_a_named_benchmark_catches_up_after_a_gap():
    panel = panel_of([[10.0, 20.0], [11.0, np.nan], [12.1, 22.0]])
    rewards = Episode(made(BenchmarkOutperformance, asset="A1"), panel).values(101.0, 101.0)
    assert rewards == pytest.approx([0.01, -0.1])


def test_the_benchmark_has_its_dividends_and_splits():
    panel = panel_of([10.0, 5.0, 4.0], splits=[1.0, 2.0, 1.0], dividends=[0.0, 0.5, 0.0])
    # Ten become two of 5 with half a dividend each; then 4 of 5.
    assert Episode(BenchmarkOutperformance(), panel).values(100.0, 100.0) == pytest.approx([-0.1, 0.2])


def test_a_benchmark_that_is_not_there_is_refused_with_those_there_are():
    with pytest.raises(DataError, match=r"asset .A9..*Known: A0, A1"):
        make_env(
            "stock_trading",
            panel=panel_of(np.full((9, 2), 10.0)),
            reward={"class": "benchmark_outperformance", "kwargs": {"asset": "A9"}},
            fill="next_close",
        )


def two_uncorrelated(bars=8):
    """Closes whose returns alternate so that over four bars they do not correlate; the second is twice as wild."""
    first = np.tile([0.01, 0.01, -0.01, -0.01], bars // 4)
    second = np.tile([0.02, -0.02, 0.02, -0.02], bars // 4)
    returns = np.stack([first, second], axis=1)
    return np.concatenate([[[10.0, 10.0]], 10.0 * np.cumprod(1 + returns, axis=0)])


def parity(weights, **kwargs):
    panel = panel_of(two_uncorrelated())
    episode = Episode(made(RiskParity, lookback=4, **kwargs), panel, start=7)
    return episode.step(positions=np.array([weights]) * 100.0 / panel.close[8], value=100.0)


def test_risk_parity_costs_nothing_where_risks_are_equal():
    assert parity([0.5, 0.25]) == pytest.approx(0.0, abs=1e-12)
    assert parity([-0.5, 0.25]) == pytest.approx(0.0, abs=1e-12)


def test_risk_parity_charges_the_part_of_the_risk_that_had_to_move():
    # Variances 0.25 and 1 with equal weights: shares 1/5 and 4/5, so 0.3 had to move.
    assert parity([0.5, 0.5], weight=2.0) == pytest.approx(-0.6, abs=1e-9)
    assert parity([0.9, 0.0]) == pytest.approx(-0.5, abs=1e-9)


def test_risk_parity_is_0_without_a_position():
    assert parity([0.0, 0.0]) == 0.0


def test_risk_parity_of_one_asset_is_0():
    panel = panel_of(two_uncorrelated()[:, :1])
    assert Episode(made(RiskParity, lookback=4), panel, start=5).step(positions=[[3.0]]) == 0.0


def test_risk_parity_has_a_covariance_at_the_first_reward():
    panel = panel_of(two_uncorrelated(12))
    reward = {"class": "risk_parity", "kwargs": {"lookback": 4}}
    env = make_env("stock_trading", panel=panel, reward=reward, fill="next_close", episode_bars=None)
    assert env.plan.first_bar == 3
    env.reset()
    assert env.step(np.array([[1.0, 0.0]], np.float32))[1][0] == pytest.approx(-0.5)


def test_risk_parity_refuses_tables_that_no_memory_holds(monkeypatch):
    monkeypatch.setattr("alphaswarm_rl.rewards.risk_parity._LARGEST_TABLE", 100)
    with pytest.raises(DataError, match="covariances of 2 assets at 9 bars"):
        RiskParity().prepare(panel_of(two_uncorrelated()))

"""`rl bench env` measures, compares, and says what is missing."""

import sys

import numpy as np

from alphaswarm_rl.bench.env_throughput import composed, stocks
from alphaswarm_rl.bench.fused import FusedStockTrading


def test_rows_have_name_figure_peer_and_ratio(rl, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where no peer is installed
    document = rl("bench", "env", "--num-envs", "4", "--rounds", "1", "--seconds", "0.01", "--json").json
    names = {row["name"] for row in document["rows"]}
    assert {"stock_trading", "window_task", "anytrading", "100000 bars"} <= names
    for row in document["rows"]:
        assert row["steps_per_s"] > 0
        assert (row["ratio"] is None) == ("missing" in row["note"])
    fused = next(row for row in document["rows"] if row["peer"] == "fused Numba step")
    assert fused["ratio"] > 0


def test_a_missing_peer_is_named_with_its_remedy(rl, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answer = rl("bench", "env", "--num-envs", "2", "--rounds", "1", "--seconds", "0.01")
    assert "finrl is missing: run make bench-peers" in answer.out


def test_a_missing_extra_is_named_and_the_rest_is_measured(rl, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in [*sys.modules, "gym_anytrading"]:
        if name.partition(".")[0] == "gym_anytrading":
            monkeypatch.setitem(sys.modules, name, None)
    answer = rl("bench", "env", "--num-envs", "2", "--rounds", "1", "--seconds", "0.01")
    assert answer.code == 0
    assert "anytrading is missing" in answer.out
    assert "window_task" in answer.out


def test_the_yardstick_does_what_the_environment_does():
    env = composed(8, stocks(bars=300), episode_bars=40)
    fused = FusedStockTrading(env)
    rng = np.random.default_rng(0)
    for step in range(39):
        actions = rng.uniform(-1, 1, (8, 30)).astype(np.float32)
        observation, rewards, _, _, infos = env.step(actions)
        np.testing.assert_allclose(fused.step(actions), observation, rtol=1e-6, atol=1e-6, err_msg=str(step))
        np.testing.assert_allclose(fused.reward, rewards, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(fused.value, infos["portfolio_value"], rtol=1e-12)

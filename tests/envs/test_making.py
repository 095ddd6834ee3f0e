"""make_env, the view of one, and what goes wrong."""

from __future__ import annotations

import subprocess
import sys

import gymnasium
import numpy as np
import pytest

from alphaswarm_rl import MarketPanel, make_env
from alphaswarm_rl.core.errors import AlphaSwarmError
from tests.envs.panels import random_panel


def test_a_single_env_ends_with_its_last_observation_and_goes_on_with_the_next_episode():
    panel = random_panel(1)
    single = make_env("stock_trading", panel=panel, single=True, seed=4, episode_bars=6)
    batched = make_env("stock_trading", panel=panel, seed=4, episode_bars=6)
    observation, _ = single.reset()
    expected, _ = batched.reset()
    single.action_space.seed(0)
    for _ in range(20):
        np.testing.assert_array_equal(observation, expected[0])
        action = single.action_space.sample()
        observation, reward, terminated, truncated, infos = single.step(action)
        expected, rewards, _, _, batch = batched.step(action[None])
        assert reward == rewards[0]
        assert infos["portfolio_value"] == batch["portfolio_value"][0]
        if terminated or truncated:
            np.testing.assert_array_equal(observation, batch["final_obs"][0])
            assert infos["reason"] == "end_of_data"
            with pytest.raises(gymnasium.error.ResetNeeded):
                single.step(action)
            observation, _ = single.reset()


def test_gymnasium_makes_batches_too():
    env = gymnasium.make_vec(
        "alphaswarm/stock_trading-v0", num_envs=3, vectorization_mode="vector_entry_point", panel=random_panel(1)
    )
    assert env.reset()[0].shape[0] == 3


def test_a_state_of_another_composition_is_refused():
    panel = random_panel(1)
    other = make_env("stock_trading", panel=panel, num_envs=2)
    with pytest.raises(AlphaSwarmError, match="environment state's"):
        make_env("stock_trading", panel=panel, num_envs=3).set_state(other.get_state())


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        ({"panel": None}, ("it has no market data", "panel=")),
        ({"fill": "next_noon"}, ("fill",)),
        ({"hmx": 3}, ("hmx", "hmax")),
        ({"action": {"class": "bracket"}}, ("asset",)),
        ({"observation": {"class": "vix"}}, ("vix", "market_features")),
        ({"reward": {"class": "nothing"}}, ("nothing",)),
        ({"turbulence_threshold": 3.0}, ("turbulence", "market_features")),
        ({"costs": {"impact": 1.0, "commission_rate": -1}}, ("commission_rate",)),
        ({"margin": {"initial": 0.2, "maintenance": 0.5}}, ("maintenance",)),
        ({"portfolio": [{"class": "identity"}]}, ("identity", "weights")),
        ({"observation": {"class": "lookback_stack", "kwargs": {"lookback": 40}}}, ("look back", "longer window")),
        ({"num_envs": 0}, ("num_envs",)),
        ({"seed": -1}, ("seed",)),
    ],
)
def test_what_cannot_be_built_is_refused_with_a_reason(kwargs, words):
    with pytest.raises(AlphaSwarmError) as error:
        make_env("stock_trading", **{"panel": random_panel(1), **kwargs})
    for word in words:
        assert word in str(error.value)


def test_next_open_without_opens_names_next_close():
    panel = random_panel(1)
    closes = MarketPanel.from_arrays(
        {"timestamps": panel.timestamps, "assets": list(panel.assets), "close": panel.close}
    ).with_features({"f": panel.close})
    with pytest.raises(AlphaSwarmError, match="next_close"):
        make_env("stock_trading", panel=closes)


@pytest.mark.parametrize(
    ("actions", "words"),
    [
        (np.zeros((2, 3)), "shape"),
        (np.full((2, 4), np.nan), "environment 0"),
        (np.array([[0.0] * 4, [np.inf] + [0.0] * 3]), "environment 1"),
    ],
)
def test_a_wrong_action_is_refused_and_nothing_moves(actions, words):
    env = make_env("stock_trading", panel=random_panel(1), num_envs=2)
    env.reset()
    before = env.get_state()
    with pytest.raises(AlphaSwarmError, match=words):
        env.step(actions)
    for name, array in env.get_state().arrays.items():
        np.testing.assert_array_equal(array, before.arrays[name])


def test_a_discrete_action_outside_its_space_is_refused():
    env = make_env("tradesim_algotrading", panel=random_panel(1, assets=1), num_envs=2)
    env.reset()
    with pytest.raises(AlphaSwarmError, match="action 3 of environment 1"):
        env.step(np.array([0, 3]))


def test_a_step_before_the_first_reset_is_refused():
    env = make_env("stock_trading", panel=random_panel(1))
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(np.zeros((1, 4), np.float32))


def test_the_panel_is_there_once_whatever_the_number_of_environments():
    """4096 environments over 30 assets and 100,000 bars: their own memory is their accounts and one observation."""
    code = """
import resource
import numpy as np
from alphaswarm_rl import make_env
from alphaswarm_rl.bench.env_throughput import stocks

panel = stocks(bars=100_000)
warm = make_env("stock_trading", panel=panel.window(None, panel.timestamps[100]), num_envs=2)
warm.reset()
warm.step(np.zeros((2, 30), np.float32))
size = sum(array.nbytes for array in (panel.close, panel.open, panel.features, panel.tradable))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
env = make_env("stock_trading", panel=panel, num_envs=4096)
env.reset()
for _ in range(3):
    env.step(np.ones((4096, 30), np.float32))
print(size, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before)
assert np.shares_memory(env.market.features, panel.features)
assert np.shares_memory(env.market.close, panel.close)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    panel_bytes, grown = map(int, done.stdout.split())
    assert panel_bytes > 140e6
    # Accounts are 5 arrays of 1 MB, an observation 5 MB; a second panel would be 150.
    assert grown < 0.3 * panel_bytes

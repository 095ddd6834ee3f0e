"""What holds for every trading environment; a new one gets all of it by its alias."""

from __future__ import annotations

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from stable_baselines3.common.env_checker import check_env as check_sb3

from alphaswarm_rl import as_sb3, build_from_config, make_env
from alphaswarm_rl.core import catalogue
from alphaswarm_rl.core.contracts import EnvRequest
from alphaswarm_rl.envs.making import REGISTERED
from alphaswarm_rl.envs.trading import TradingComponent
from tests.envs.contract import check_vector_env
from tests.envs.panels import random_panel

TRADING = [cls.rl_alias for cls in catalogue.listing() if issubclass(cls, TradingComponent)]
every_env = pytest.mark.parametrize("alias", TRADING)
#: What an environment needs beside its defaults to be tried on these panels.
KWARGS = {"stock_portfolio": {"lookback": 10}}


def panel_for(alias, *, bars=90, seed=3):
    """Bars with gaps, of one asset where the environment trades one."""
    return random_panel(seed, bars=bars, assets=1 if alias == "tradesim_algotrading" else 4)


def build(alias, **overrides):
    """A function from a request to the environment, as the contract wants it."""
    component = build_from_config({"class": alias, "kwargs": {**KWARGS.get(alias, {}), **overrides}}, kind="env")
    panel = panel_for(alias)

    def of(request):
        changed = {**vars(request), "parts": {"panel": panel}}
        return component.build(EnvRequest(**changed))

    return of


def test_gymnasium_knows_them_all():
    assert set(TRADING) | {"anytrading"} == set(REGISTERED)


@every_env
def test_it_keeps_the_batched_contract(alias):
    check_vector_env(build(alias, episode_bars=12), steps=40)


@every_env
@pytest.mark.parametrize("fill", ["next_close", "same_close", "cheat_on_open"])
def test_it_keeps_the_batched_contract_whatever_the_fill(alias, fill):
    check_vector_env(build(alias, episode_bars=12, fill=fill), steps=30)


@every_env
def test_gymnasiums_and_sb3s_checkers_pass(alias):
    env = gymnasium.make(f"alphaswarm/{alias}-v0", panel=panel_for(alias), **KWARGS.get(alias, {}))
    with warnings.catch_warnings():
        # They would like bounded observations; a market has no bounds.
        warnings.simplefilter("ignore")
        check_env(env.unwrapped, skip_render_check=True)
        check_sb3(env.unwrapped)


@every_env
def test_a_thousand_random_episodes_have_no_nan(alias):
    env = make_env(alias, panel=panel_for(alias), num_envs=100, seed=5, episode_bars=10, **KWARGS.get(alias, {}))
    observation, _ = env.reset()
    env.action_space.seed(0)
    while env.episode_numbers.min() < 10:
        observation, rewards, _, _, infos = env.step(env.action_space.sample())
        assert np.isfinite(observation).all()
        assert np.isfinite(rewards).all()
        for name, values in {**infos, **infos["reward_terms"]}.items():
            if isinstance(values, np.ndarray) and values.dtype.kind == "f":
                assert np.isfinite(values).all(), name
        total = sum(infos["reward_terms"].values())
        np.testing.assert_allclose(total, rewards, rtol=1e-12, atol=1e-12)


@every_env
def test_two_copies_agree_and_one_is_the_first_of_a_thousand(alias):
    panel, kwargs = panel_for(alias), KWARGS.get(alias, {})
    envs = [make_env(alias, panel=panel, num_envs=n, seed=9, episode_bars=15, **kwargs) for n in (1024, 1024, 1)]
    results = [env.reset()[0] for env in envs]
    envs[0].action_space.seed(1)
    for _ in range(40):
        action = envs[0].action_space.sample()
        assert results[0].tobytes() == results[1].tobytes()
        assert results[0][:1].tobytes() == results[2].tobytes()
        steps = [env.step(given) for env, given in zip(envs, (action, action, action[:1]), strict=True)]
        results = [step[0] for step in steps]
        assert steps[0][1].tobytes() == steps[1][1].tobytes()
        assert steps[0][1][0] == steps[2][1][0]


@every_env
def test_names_are_known_before_the_first_step(alias):
    env = make_env(alias, panel=panel_for(alias), **KWARGS.get(alias, {}))
    assert len(env.feature_names) == len(set(env.feature_names)) == env.single_observation_space.shape[0]


@every_env
def test_an_evaluation_is_the_whole_window(alias):
    panel = panel_for(alias)
    env = make_env(alias, panel=panel, phase="evaluate", **KWARGS.get(alias, {}))
    env.reset()
    env.action_space.seed(3)
    length = env.plan.last_bar - env.plan.first_bar
    for step in range(1, length + 1):
        _, _, terminated, truncated, infos = env.step(env.action_space.sample())
        if terminated[0]:
            return
        assert truncated[0] == (step == length)
    assert infos["reason"][0] == "end_of_data"
    assert infos["timestamp"][0] == panel.timestamps[-1]


@every_env
def test_stable_baselines3_takes_it(alias):
    venv = as_sb3(make_env(alias, panel=panel_for(alias), num_envs=3, episode_bars=8, **KWARGS.get(alias, {})))
    venv.reset()
    for _ in range(20):
        _, _, dones, infos = venv.step([venv.action_space.sample() for _ in range(3)])
        for done, info in zip(dones, infos, strict=True):
            assert ("terminal_observation" in info) == bool(done)


@pytest.mark.parametrize(
    ("name", "alias"),
    [
        ("StockTradingEnv", "stock_trading"),
        ("FinRLStockTradingEnv", "stock_trading"),
        ("StockPortfolioEnv", "stock_portfolio"),
        ("CryptoEnv", "crypto_trading"),
        ("StockTradingEnvCashpenalty", "cash_penalty"),
        ("StockTradingEnvStopLoss", "stop_loss"),
    ],
)
def test_finrls_names_are_known(name, alias):
    assert build_from_config({"class": name}, kind="env").rl_alias == alias

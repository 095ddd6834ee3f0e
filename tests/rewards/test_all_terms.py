"""What holds for all terms together, on random markets with gaps."""

import math
from importlib import import_module
from pkgutil import iter_modules

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import alphaswarm_rl.rewards
from alphaswarm_rl.actions.continuous_weights import ContinuousWeights
from alphaswarm_rl.core import catalogue
from alphaswarm_rl.envs.making import make_env
from alphaswarm_rl.market.panel import MarketPanel
from alphaswarm_rl.terminations.drawdown import DrawdownTermination
from alphaswarm_rl.terminations.margin_call import MarginCallTermination
from tests.rewards.episodes import days

MODULES = [
    import_module(f"alphaswarm_rl.rewards.{module.name}") for module in iter_modules(alphaswarm_rl.rewards.__path__)
]
PARTS = (ContinuousWeights, DrawdownTermination, MarginCallTermination)  # imported, so that references find them

#: Every term, with parameters under which it does something early.
TERMS = [
    {"class": "benchmark_outperformance"},
    {"class": "benchmark_outperformance", "kwargs": {"asset": "A0"}, "name": "ahead_of_a0"},
    {"class": "cash_idle"},
    {"class": "cash_penalty"},
    {"class": "clip_residual", "kwargs": {"low": -0.5, "high": 0.5}},
    {"class": "differential_downside", "kwargs": {"warmup_steps": 2}},
    {"class": "differential_sharpe", "kwargs": {"warmup_steps": 2}},
    {"class": "drawdown_penalty"},
    {"class": "exp_utility", "kwargs": {"gamma": 5.0}},
    {"class": "exp_utility", "kwargs": {"mode": "telescoping"}, "name": "wealth_utility"},
    {"class": "hindsight", "kwargs": {"horizon": 3}},
    {"class": "implementation_shortfall"},
    {"class": "implementation_shortfall", "kwargs": {"quantity": -50.0}, "name": "order_shortfall"},
    {"class": "inventory_quadratic", "kwargs": {"phi": 1e-9}},
    {"class": "inventory_quadratic", "kwargs": {"measure": "weights"}, "name": "concentration"},
    {"class": "log_return"},
    {"class": "margin_call", "kwargs": {"penalty": 2.0}},
    {"class": "pnl"},
    {"class": "portfolio_return"},
    {"class": "potential_shaping"},
    {"class": "risk_parity", "kwargs": {"lookback": 4}},
    {"class": "running_inventory", "kwargs": {"scale": 1e-6}},
    {"class": "sharpe", "kwargs": {"min_steps": 2}},
    {"class": "slippage_penalty"},
    {"class": "sortino", "kwargs": {"min_steps": 2}},
    {"class": "stop_loss"},
    {"class": "stop_properly", "kwargs": {"coef": 0.3}},
    {"class": "transaction_cost"},
    {"class": "turbulence_gate", "kwargs": {"threshold": 100.0}},
    {"class": "turnover_penalty"},
    {"class": "volatility_penalty", "kwargs": {"window": 3}},
]
WEIGHTED = [{**term, "weight": 0.3 + 0.1 * place} for place, term in enumerate(TERMS)]
REWARD = {"class": "composite", "kwargs": {"terms": WEIGHTED}}
BARS, STEPS = 30, 40

markets = st.builds(
    dict, seed=st.integers(0, 2**32 - 1), assets=st.integers(1, 3), margin=st.booleans(), actions=st.booleans()
)


def random_panel(seed, assets, actions, *, noise_after=None):
    """Wild prices with holes, late starts and early ends; with splits and dividends where `actions`."""
    rng = np.random.default_rng(seed)
    close = 50.0 * np.exp(np.cumsum(rng.normal(0, 0.08, (BARS, assets)), axis=0))
    missing = rng.random((BARS, assets)) < 0.15
    missing[: rng.integers(0, 12), rng.integers(assets)] = True
    missing[BARS - rng.integers(1, 12) :, rng.integers(assets)] |= rng.random() < 0.5
    missing[12:15] = False
    splits = np.where(rng.random((BARS, assets)) < 0.05, 2.0, 1.0)
    dividends = np.where(rng.random((BARS, assets)) < 0.05, 0.5, 0.0)
    turbulence = rng.uniform(0, 200, BARS)
    if noise_after is not None:
        close[noise_after + 1 :] *= 1.7
        turbulence[noise_after + 1 :] = 500.0
    columns = {"splits": splits, "dividends": dividends} if actions else {}
    panel = MarketPanel.from_arrays(
        {
            "timestamps": days(BARS),
            "assets": [f"A{i}" for i in range(assets)],
            "close": np.where(missing, np.nan, close),
            **columns,
        }
    )
    return panel.with_features({"nothing": np.zeros(close.shape)}).with_market_features({"turbulence": turbulence})


def environment(panel, margin, num_envs, **kwargs):
    """Few shares in a cash account, or long and short by weights in a margin account."""
    if margin:
        kwargs["margin"] = {}
        kwargs["action"] = {"class": "continuous_weights", "kwargs": {"short": True, "gross": 1.9}}
    return make_env(
        "stock_trading",
        **{
            "panel": panel,
            "num_envs": num_envs,
            "reward": REWARD,
            "fill": "next_close",
            "terminations": [{"class": "drawdown", "kwargs": {"limit": 0.25}}],
            "initial_cash": 10_000.0,
            "episode_bars": 9,
            **kwargs,
        },
    )


def actions_of(seed, assets):
    return np.random.default_rng(seed + 1).uniform(-1, 1, (STEPS, 3, assets)).astype(np.float32)


def rollout(env, actions, convert=np.asarray):
    """Rewards (steps, n), terms by name (steps, n), and the ends."""
    env.reset(seed=7)
    rewards, terms, ends = [], {}, []
    for action in actions:
        _, reward, terminated, truncated, infos = env.step(convert(action))
        rewards.append(np.asarray(reward))
        ends.append(np.asarray(terminated | truncated))
        for name, values in infos["reward_terms"].items():
            terms.setdefault(name, []).append(np.asarray(values))
    return np.array(rewards), {name: np.array(values) for name, values in terms.items()}, np.array(ends)


def test_every_term_is_here():
    ours = {cls.rl_alias for cls in catalogue.listing() if cls in vars_of_modules() and cls.rl_kind == "reward"}
    assert {term["class"] for term in TERMS} == ours - {"composite"}


def vars_of_modules():
    return {value for module in MODULES for value in vars(module).values() if isinstance(value, type)}


def test_every_term_pays_something_somewhere():
    paid = set()
    for seed in range(6):
        for margin in (False, True):
            env = environment(random_panel(seed, 3, True), margin, 3, initial_cash=100_000.0 if margin else 5_000.0)
            terms = rollout(env, actions_of(seed, 3))[1]
            paid |= {name for name, values in terms.items() if values.any()}
    assert paid == {term.get("name", term["class"]) for term in TERMS}


@settings(max_examples=25, deadline=None)
@given(market=markets)
def test_contributions_are_finite_and_sum_to_the_reward(market):
    panel = random_panel(market["seed"], market["assets"], market["actions"])
    env = environment(panel, market["margin"], 3)
    rewards, terms, ends = rollout(env, actions_of(market["seed"], market["assets"]))
    assert ends.any()
    for name, values in terms.items():
        assert np.isfinite(values).all(), name
    stacked = np.stack(list(terms.values()), axis=-1)
    for place in np.ndindex(rewards.shape):
        exact = math.fsum(stacked[place])
        assert abs(rewards[place] - exact) <= 1e-12 * max(1.0, np.abs(stacked[place]).sum())


@settings(max_examples=25, deadline=None)
@given(market=markets)
def test_an_environment_is_the_same_alone_and_among_others(market):
    panel = random_panel(market["seed"], market["assets"], market["actions"])
    actions = actions_of(market["seed"], market["assets"])
    many = rollout(environment(panel, market["margin"], 3), actions)
    alone = rollout(environment(panel, market["margin"], 1), actions[:, :1])
    assert np.array_equal(many[0][:, :1], alone[0])
    for name, values in alone[1].items():
        assert np.array_equal(many[1][name][:, :1], values), name


@settings(max_examples=25, deadline=None)
@given(market=markets, last=st.integers(6, BARS - 2))
def test_no_term_but_hindsight_sees_what_comes_later(market, last):
    kwargs = {"episode_bars": None, "terminations": []}
    actions = actions_of(market["seed"], market["assets"])[: BARS - 4]
    runs = []
    for noise_after in (None, last):
        panel = random_panel(market["seed"], market["assets"], market["actions"], noise_after=noise_after)
        env = environment(panel, market["margin"], 3, **kwargs)
        runs.append(rollout(env, actions[: last - env.plan.first_bar]))
    for name, values in runs[0][1].items():
        # What settles goes by all the others.
        if name not in {"hindsight", "clip_residual", "stop_properly"}:
            assert np.array_equal(values, runs[1][1][name]), name


@settings(max_examples=10, deadline=None)
@given(market=markets)
def test_every_episode_is_paid_as_if_it_were_the_first(market):
    panel = random_panel(market["seed"], market["assets"], market["actions"])
    action = actions_of(market["seed"], market["assets"])[0]
    env = environment(panel, market["margin"], 3, episode_bars=None)
    rewards, _, ends = rollout(env, [action] * STEPS)
    for place in range(3):
        closing = np.flatnonzero(ends[:, place])
        if len(closing):
            length = closing[0] + 1
            again = rewards[length : 2 * length, place]
            assert np.array_equal(rewards[: len(again), place], again)


@pytest.mark.parametrize("margin", [False, True])
def test_a_saved_environment_goes_on_bit_for_bit(margin):
    panel, actions = random_panel(5, 3, True), actions_of(5, 3)
    env, other = (environment(panel, margin, 3) for _ in range(2))
    rollout(env, actions[:5])
    other.reset(seed=1)
    other.set_state(env.get_state())
    for action in actions[5:25]:
        assert np.array_equal(env.step(action)[1], other.step(action)[1])


@pytest.mark.parametrize("margin", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_torch_pays_the_same(margin, seed):
    import torch

    panel, actions = random_panel(seed, 3, True), actions_of(seed, 3)
    expected = rollout(environment(panel, margin, 3), actions)
    found = rollout(environment(panel, margin, 3, backend="torch"), actions, torch.tensor)
    assert np.array_equal(found[2], expected[2])
    for name, values in expected[1].items():
        assert found[1][name] == pytest.approx(values, rel=1e-6, abs=1e-9), name

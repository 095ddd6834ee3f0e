"""`stock_trading` with `compat: finrl` follows FinRL's published arithmetic, step by step."""

from __future__ import annotations

import numpy as np
import pytest

from alphaswarm_rl import MarketPanel, make_env

BARS, ASSETS, STEPS = 2001, 30, 2000
INDICATORS = tuple(f"tech{index}" for index in range(8))
COST, SCALING, CASH, HMAX = 0.001, 1e-4, 1_000_000.0, 100


@pytest.fixture(scope="module")
def panel():
    rng = np.random.default_rng(7)
    close = 60.0 * np.exp(np.cumsum(rng.normal(0.0002, 0.012, (BARS, ASSETS)), axis=0))
    days = np.datetime64("2000-01-01") + np.arange(BARS).astype("timedelta64[D]")
    made = MarketPanel.from_arrays(
        {"timestamps": days, "assets": [f"S{index:02}" for index in range(ASSETS)], "close": close}
    )
    turbulence = np.abs(rng.normal(0.0, 50.0, BARS))
    features = {name: rng.normal(size=close.shape) for name in INDICATORS}
    return made.with_features(features).with_market_features({"turbulence": turbulence})


class PublishedRules:
    """FinRL's StockTradingEnv as published: cash, integer shares, sells from the most negative action, then buys from
    the largest, each bound by the cash left; filled and marked at closes."""

    def __init__(self, closes, turbulence, threshold):
        self.closes, self.turbulence, self.threshold = closes, turbulence, threshold
        self.day, self.cash, self.shares = 0, CASH, [0] * ASSETS
        # Read with each bar that a step leads to, and so 0 at the first decision.
        self.seen = 0.0

    def value(self):
        return self.cash + sum(n * p for n, p in zip(self.shares, self.closes[self.day], strict=True))

    def sell(self, asset, requested):
        price = self.closes[self.day][asset]
        number = min(requested, self.shares[asset])
        self.cash += price * number * (1 - COST)
        self.shares[asset] -= number

    def buy(self, asset, requested):
        price = self.closes[self.day][asset]
        number = min(self.cash // (price * (1 + COST)), requested)
        self.cash -= price * number * (1 + COST)
        self.shares[asset] += number

    def step(self, actions):
        orders = [int(action) for action in actions]
        before = self.value()
        if self.threshold is not None and self.seen >= self.threshold:
            for asset in range(ASSETS):
                self.sell(asset, self.shares[asset])
        else:
            order = np.argsort(orders)
            for asset in order[: sum(number < 0 for number in orders)]:
                self.sell(asset, -orders[asset])
            for asset in order[::-1][: sum(number > 0 for number in orders)]:
                self.buy(asset, orders[asset])
        self.day += 1
        self.seen = self.turbulence[self.day]
        return (self.value() - before) * SCALING


@pytest.mark.parametrize("threshold", [None, 120.0])
def test_two_thousand_steps_agree(panel, threshold):
    env = make_env(
        "stock_trading", panel=panel, phase="evaluate", compat="finrl", turbulence_threshold=threshold, seed=1
    )
    published = PublishedRules(panel.close, panel.market_features[:, 0], threshold)
    rng = np.random.default_rng(11)
    observation, _ = env.reset()
    for step in range(STEPS):
        # Distinct sizes: among equal ones the published order is that of an unstable sort.
        sizes = rng.permutation(np.arange(1, HMAX + 1))[:ASSETS] * rng.choice([-1, 1], ASSETS)
        action = ((sizes + np.sign(sizes) * 0.5) / HMAX).clip(-1.0, 1.0)[None]
        expected = published.step(sizes)
        observation, rewards, _, truncated, infos = env.step(action)
        assert rewards[0] == pytest.approx(expected, rel=1e-6, abs=1e-9)
        assert infos["portfolio_value"][0] == pytest.approx(published.value(), rel=1e-6)
        if step < STEPS - 1:
            np.testing.assert_array_equal(env.view.positions[0], published.shares)
            assert not truncated[0]
            _check_observation(panel, observation[0], published)
    assert truncated[0]
    assert infos["final_obs"].shape == (1, 1 + 2 * ASSETS + len(INDICATORS) * ASSETS)


def _check_observation(panel, observation, published):
    """FinRL's layout: cash, prices, shares, then indicator after indicator."""
    np.testing.assert_allclose(observation[0], published.cash, rtol=1e-6)
    np.testing.assert_allclose(observation[1 : 1 + ASSETS], panel.close[published.day], rtol=1e-6)
    np.testing.assert_array_equal(observation[1 + ASSETS : 1 + 2 * ASSETS], published.shares)
    np.testing.assert_array_equal(
        observation[1 + 2 * ASSETS :].reshape(len(INDICATORS), ASSETS), panel.features[published.day].T
    )


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize(("settings", "bought"), [({"compat": "finrl"}, 50.0), ({"fill": "same_close"}, 0.0)])
def test_only_finrl_lets_the_first_decision_pass(settings, bought, backend):
    """With turmoil at every bar: FinRL buys at an episode's first bar and is sold out at its second, every episode."""
    days = np.datetime64("2024-01-01") + np.arange(6).astype("timedelta64[D]")
    calm = MarketPanel.from_arrays({"timestamps": days, "assets": ["A"], "close": np.full((6, 1), 10.0)})
    panel = calm.with_market_features({"turbulence": np.full(6, 99.0)}).with_features({"tech": np.ones((6, 1))})
    env = make_env("stock_trading", panel=panel, turbulence_threshold=50, episode_bars=3, backend=backend, **settings)
    env.reset(seed=0)
    order = np.array([[0.5]], np.float32)
    if backend == "torch":
        import torch

        order = torch.as_tensor(order)
    held = []
    for _ in range(6):
        env.step(order)
        held.append(float(env.view.traded[0, 0]))
    assert held == 2 * [bought, -bought, 0.0]


def test_the_run_is_marked_optimistic():
    from alphaswarm_rl import build_from_config

    env = build_from_config({"class": "stock_trading", "kwargs": {"compat": "finrl"}}, kind="env")
    assert "optimistic_fill" in env.notices()[0]

"""Every portfolio stage with parameters that act on a small market, and the views that it is tried on."""

from __future__ import annotations

import numpy as np

from alphaswarm_rl.arrays.backend_numpy import NUMPY
from alphaswarm_rl.core import catalogue
from alphaswarm_rl.core.refs import build_from_config
from alphaswarm_rl.core.view import View
from alphaswarm_rl.market.fills import fill_policy
from alphaswarm_rl.market.market import market_of
from alphaswarm_rl.market.stages import stage_parts
from tests.envs.panels import random_panel

#: Parameters with which a stage has something to do on `panel_for`.
KWARGS = {
    "static_universe": {"symbols": ["A2", "A0"]},
    "liquidity": {"min_traded_value": 2.5e6, "lookback": 5},
    "momentum": {"k": 2, "lookback": 8},
    "softmax": {"temperature": 0.2},
    "inverse_volatility": {"lookback": 10, "rebalance": "week"},
    "minimum_variance": {"lookback": 10, "rebalance": "week"},
    "mean_variance": {"lookback": 10, "rebalance": "week"},
    "hierarchical_risk_parity": {"lookback": 10, "rebalance": "week"},
    "constant": {"scale": 0.7},
    "turbulence": {"threshold": 1.2, "scale": 0.1, "smoothing": 2.0, "cooldown_bars": 2},
    "volatility_target": {"target": 0.2, "lookback": 8},
    "position_cap": {"max_position": 0.25},
    "gross_exposure": {"max_gross": 0.8},
    "net_exposure": {"max_net": 0.3},
    "concentration": {"max_concentration": 0.4},
    "turnover": {"max_turnover": 0.15},
    "daily_loss": {"max_daily_loss": 0.005},
    "drawdown": {"max_drawdown": 0.02, "cooldown_bars": 3},
    "risk_limits": {
        "max_position": 0.3,
        "max_gross": 0.9,
        "max_net": 0.4,
        "max_concentration": 0.45,
        "max_turnover": 0.3,
        "max_daily_loss": 0.01,
        "max_drawdown": 0.05,
        "cooldown_bars": 2,
    },
}
STAGES = [
    cls.rl_alias for cls in catalogue.listing("portfolio_stage") if cls.__module__.startswith("alphaswarm_rl.portfolio")
]


def ref(alias):
    return {"class": alias, "kwargs": KWARGS.get(alias, {})}


def stage(alias, **kwargs):
    return build_from_config({"class": alias, "kwargs": kwargs or KWARGS.get(alias, {})}, kind="portfolio_stage")


def panel_for(seed=2, *, bars=60, assets=5, **more):
    panel = random_panel(seed, bars=bars, assets=assets, actions=True, **more)
    turbulence = np.abs(np.random.default_rng(seed).normal(size=bars))
    return panel.with_market_features({"turbulence": turbulence})


def market_for(panel, backend=NUMPY):
    return market_of(panel, fill_policy("next_close"), backend)


def accounts(market, n, seed=0, *, first=20):
    """N accounts at bars of their own that hold longs and shorts."""
    rng = np.random.default_rng(seed)
    view = View(market, 1000.0, n)
    view.bar[:] = rng.integers(first, market.panel.num_bars, n)
    view.start[:] = first
    view.positions[:] = rng.normal(size=view.positions.shape) * 5.0
    view.cash[:] = rng.uniform(0.0, 2000.0, n)
    view.value[:] = np.maximum(view.cash + (view.positions * view.close).sum(axis=1), 10.0)
    view.value_before[:] = view.value * rng.uniform(0.95, 1.05, n)
    view.peak[:] = np.maximum(view.value, view.value_before)
    return view


def weights_for(n, assets, seed=1, *, scale=1.0):
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(n, assets)) * scale
    weights[rng.random(weights.shape) < 0.2] = 0.0
    return weights


def parts_of(aliases, market, n):
    return stage_parts([stage(alias) if isinstance(alias, str) else alias for alias in aliases], market, n)


def run(parts, view, weights):
    """The weights after each of the stages."""
    out, found = weights.copy(), []
    for part in parts:
        part.step(view, out)
        found.append(out.copy())
    return found

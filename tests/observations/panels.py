"""A small panel for observations, the same with another future, and what a builder shows on it."""

import numpy as np

from alphaswarm_rl.arrays.backend_numpy import NUMPY
from alphaswarm_rl.core.view import View
from alphaswarm_rl.market.fills import NEXT_CLOSE
from alphaswarm_rl.market.market import market_of
from alphaswarm_rl.market.panel import MarketPanel

ASSETS = ("KO", "PEP", "XOM")
#: KO has no bars here, and PEP none before its first.
HOLE = slice(10, 13)
LATE = 5


def sample_panel(n_bars=40, minutes=1440, noise_after=None, features=("macd", "bid", "ask", "bid_size", "ask_size")):
    """Bars with a hole in KO and a late PEP; with `noise_after`, everything behind that bar is something else."""
    arrays = _arrays(n_bars, np.random.default_rng(0))
    if noise_after is not None:
        noise = _arrays(n_bars, np.random.default_rng(1), start=500.0)
        for name, values in arrays.items():
            values[noise_after + 1 :] = noise[name][noise_after + 1 :]
    shown = {name: arrays.pop(name) for name in ("macd", "bid", "ask", "bid_size", "ask_size")}
    market = {name: arrays.pop(name) for name in ("turbulence", "vix")}
    arrays["close"][HOLE, 0] = np.nan
    arrays["close"][:LATE, 1] = np.nan
    if noise_after is not None:
        # Which bars there are is part of the future too.
        arrays["close"][noise_after + 1 : -1, 2] = np.nan
    first = np.datetime64("2024-01-01T00:00", "ns")
    panel = MarketPanel.from_arrays(
        {"timestamps": first + np.arange(n_bars) * np.timedelta64(minutes, "m"), "assets": ASSETS, **arrays}
    )
    return panel.with_features({name: shown[name] for name in features}).with_market_features(market)


def _arrays(n_bars, rng, start=100.0):
    shape = (n_bars, len(ASSETS))
    close = start * np.exp(np.cumsum(rng.normal(0, 0.02, shape), axis=0))
    opened = close * np.exp(rng.normal(0, 0.01, shape))
    return {
        "close": close,
        "open": opened,
        "high": np.maximum(opened, close) * 1.01,
        "low": np.minimum(opened, close) * 0.99,
        "volume": rng.integers(1, 1000, shape).astype(float),
        "macd": rng.normal(size=shape),
        "bid": close * 0.999,
        "ask": close * (1.0 + rng.uniform(0.001, 0.01, shape)),
        "bid_size": rng.integers(1, 100, shape).astype(float),
        "ask_size": rng.integers(1, 100, shape).astype(float),
        "turbulence": rng.uniform(0, 100, n_bars),
        "vix": rng.uniform(10, 40, n_bars),
    }


def observed(builder, panel, bars=None, backend=NUMPY):
    """What it shows at these bars, one environment each; None: at all bars that it may be asked for."""
    bars = np.arange(builder.warmup_bars(), panel.num_bars) if bars is None else np.asarray(bars, np.int64)
    view = View(market_of(panel, NEXT_CLOSE, backend), 1000.0, len(bars))
    view.bar[...] = backend.put(bars)
    shared = {name: backend.put(table) for name, table in builder.prepare(panel).items()}
    out = backend.put(np.full((len(bars), len(builder.names(panel))), np.nan, np.float32))
    builder.step(view, {**shared, **builder.init(len(bars), backend.xp)}, out)
    return np.asarray(out)


def at(builder, panel, bar):
    """What it shows at one bar, by name."""
    return dict(zip(builder.names(panel), observed(builder, panel, [bar])[0].tolist(), strict=True))

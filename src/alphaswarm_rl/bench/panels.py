"""Made-up markets to measure on."""

from __future__ import annotations

import numpy as np

from alphaswarm_rl.market.panel import MarketPanel

ASSETS, INDICATORS, BARS = 30, 8, 2_000
_WALK = 1_000


def stocks(bars: int = BARS, assets: int = ASSETS, features: int = INDICATORS) -> MarketPanel:
    """Daily bars with opens and closes, a random walk each, and indicators that are noise.

    Beyond a thousand bars the same ones come again, so that a longer panel costs more memory and nothing else.
    """
    rng = np.random.default_rng(0)
    walk = 100.0 * np.exp(np.cumsum(rng.normal(0.0, 0.01, (_WALK, assets)), axis=0))
    close = np.resize(walk, (bars, assets))
    arrays = {
        "timestamps": np.datetime64("2000-01-01", "ns") + np.arange(bars).astype("timedelta64[D]"),
        "assets": [f"S{index:02}" for index in range(assets)],
        "close": close,
        "open": close * np.exp(rng.normal(0.0, 0.002, close.shape)),
    }
    names = [f"indicator{index}" for index in range(features)]
    panel = MarketPanel.from_arrays(arrays, periods_per_year=252.0)
    return panel.with_features({name: rng.normal(size=close.shape) for name in names})

"""Random panels for tests: gaps, late starts, early ends, dividends and splits."""

from __future__ import annotations

import numpy as np

from alphaswarm_rl.market.panel import MarketPanel


def random_panel(
    seed: int, *, bars: int = 40, assets: int = 4, gaps: bool = True, actions: bool = False, features: int = 2
) -> MarketPanel:
    """Bars with opens, highs, lows and volume; with `gaps` some are missing, one asset starts late and one ends."""
    rng = np.random.default_rng(seed)
    close = 50.0 * np.exp(np.cumsum(rng.normal(0.0, 0.03, (bars, assets)), axis=0))
    opens = close * np.exp(rng.normal(0.0, 0.01, close.shape))
    high = np.maximum(close, opens) * (1.0 + rng.uniform(0.0, 0.02, close.shape))
    low = np.minimum(close, opens) * (1.0 - rng.uniform(0.0, 0.02, close.shape))
    arrays = {
        "timestamps": np.datetime64("2020-01-01") + np.arange(bars).astype("timedelta64[D]"),
        "assets": [f"A{index}" for index in range(assets)],
        "close": close,
        "open": opens,
        "high": high,
        "low": low,
        "volume": rng.uniform(1e4, 1e5, close.shape),
    }
    if gaps:
        missing = rng.random(close.shape) < 0.1
        missing[0] = missing[-1] = False
        if assets > 1:
            missing[: bars // 4, 1] = True
            missing[-bars // 4 :, assets - 1] = True
        for name in ("close", "open", "high", "low", "volume"):
            arrays[name] = np.where(missing, np.nan, arrays[name])
    if actions:
        arrays["dividends"] = np.where(rng.random(close.shape) < 0.1, 0.5, 0.0)
        arrays["splits"] = np.where(rng.random(close.shape) < 0.05, 2.0, 1.0)
    panel = MarketPanel.from_arrays(arrays)
    return panel.with_features({f"f{index}": rng.normal(size=close.shape) for index in range(features)})

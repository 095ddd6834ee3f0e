"""Small panels and frames for tests."""

import numpy as np
import pandas as pd

from alphaswarm_rl.market.panel import MarketPanel


def bars(n_bars=30, assets=("AAA", "BBB", "CCC"), seed=0, start="2020-01-01"):
    """A long frame of whole bars without gaps, ordered by time and asset."""
    rng = np.random.default_rng(seed)
    times = pd.bdate_range(start, periods=n_bars)
    frames = []
    for asset in assets:
        close = 100 * np.exp(np.cumsum(rng.normal(0, 0.02, n_bars)))
        opened = close * np.exp(rng.normal(0, 0.01, n_bars))
        high = np.maximum(opened, close) * (1 + rng.uniform(0, 0.01, n_bars))
        low = np.minimum(opened, close) * (1 - rng.uniform(0, 0.01, n_bars))
        volume = rng.integers(1, 10**6, n_bars).astype(float)
        frames.append(
            pd.DataFrame(
                {
                    "timestamp": times,
                    "asset": asset,
                    "open": opened,
                    "high": high,
                    "low": low,
                    "close": close,
                    "volume": volume,
                }
            )
        )
    frame = pd.concat(frames)
    return frame.sort_values(["timestamp", "asset"], ignore_index=True)


def gappy(n_bars=30, seed=0):
    """A long frame in which BBB starts late, CCC ends early and AAA has a hole."""
    frame = bars(n_bars, seed=seed)
    times = frame["timestamp"].unique()
    late = (frame["asset"] == "BBB") & (frame["timestamp"] < times[5])
    gone = (frame["asset"] == "CCC") & (frame["timestamp"] > times[20])
    hole = (frame["asset"] == "AAA") & frame["timestamp"].isin(times[10:13])
    return frame[~(late | gone | hole)].reset_index(drop=True)


def panel(n_bars=30, **options):
    return MarketPanel.from_frame(bars(n_bars), **options)

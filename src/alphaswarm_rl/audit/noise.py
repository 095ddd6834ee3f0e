"""A panel whose future is another one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np

from alphaswarm_rl.market.panel import MarketPanel

Array = np.ndarray[Any, Any]

#: Standard deviation of the log factors that later prices are multiplied by: nothing that matters survives it.
_PRICE_NOISE = 0.5


#: A market that rises, one that falls, one that does both: what waits for a limit notices at least one of them.
Mood = Literal["mixed", "up", "down"]
MOODS: tuple[Mood, ...] = ("mixed", "up", "down")


def with_noise_after(panel: MarketPanel, bar: int, seed: int = 0, mood: Mood = "mixed") -> MarketPanel:
    """The panel with every number after `bar` replaced; which bars there are stays as it is.

    Prices, volumes and dividends are multiplied by random factors, one for all prices of a bar, so that each bar stays
    a valid one; features and market features become random numbers of their own size.
    """
    rng = np.random.default_rng(seed)
    later = slice(bar + 1, None)
    factor = np.ones(panel.close.shape)
    logs = rng.normal(0.0, _PRICE_NOISE, factor[later].shape)
    factor[later] = np.exp({"mixed": logs, "up": 0.5 + np.abs(logs), "down": -0.5 - np.abs(logs)}[mood])
    # A carried price is that of the bar it was carried from.
    factor = _carried(factor, panel.tradable)
    changed: dict[str, Any] = {}
    for name in ("close", "open", "high", "low", "volume", "dividends"):
        values = getattr(panel, name)
        if values is not None:
            changed[name] = values * factor
    changed["features"] = _replaced(panel.features, later, rng)
    changed["market_features"] = _replaced(panel.market_features, later, rng)
    return replace(panel, **changed)


def _carried(factor: Array, tradable: Array) -> Array:
    rows = np.where(tradable, np.arange(len(factor))[:, None], -1)
    rows = np.maximum.accumulate(rows, axis=0)
    kept = np.take_along_axis(factor, np.maximum(rows, 0), axis=0)
    return np.where(rows < 0, 1.0, kept)


def _replaced(values: Array, later: slice, rng: np.random.Generator) -> Array:
    made = values.copy()
    scale = np.abs(values).max(axis=0, initial=0.0) + 1.0
    made[later] = rng.normal(0.0, 1.0, made[later].shape) * scale
    return made

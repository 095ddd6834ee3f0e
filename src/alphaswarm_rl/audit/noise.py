"""A panel whose future is another one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np

from alphaswarm_rl.core.types import Array
from alphaswarm_rl.market.panel import MarketPanel

#: Standard deviation of the log factors that later prices are multiplied by: nothing that matters survives it.
_PRICE_NOISE = 0.5
#: Parts of the later bars that go missing, and that have a split or a dividend of their own.
_GAPS = 0.3
_EVENTS = 0.05
#: A dividend, as a part of the price.
_DIVIDEND = 0.01


#: A market that rises, one that falls, one that does both: what waits for a limit notices at least one of them.
Mood = Literal["mixed", "up", "down"]
MOODS: tuple[Mood, ...] = ("mixed", "up", "down")


def with_noise_after(panel: MarketPanel, bar: int, seed: int = 0, mood: Mood = "mixed") -> MarketPanel:
    """The panel with everything after `bar` replaced, and again a valid one.

    Prices and volumes are multiplied by random factors, one for all prices of a bar, so that each bar stays a valid
    one. Bars go missing and assets end earlier, but each that has later bars keeps one of them. Where the panel has
    splits or dividends there are others. Features and market features become random numbers of their own size.

    In a mixed market the very next bar is missing, in the others it is there, with a split and a dividend: what looks
    one bar ahead meets both.
    """
    rng = np.random.default_rng((seed, bar, MOODS.index(mood)))
    later = slice(bar + 1, None)
    factor = np.ones(panel.close.shape)
    logs = rng.normal(0.0, _PRICE_NOISE, factor[later].shape)
    factor[later] = np.exp({"mixed": logs, "up": 0.5 + np.abs(logs), "down": -0.5 - np.abs(logs)}[mood])
    kept, last_bar = _kept(panel, bar, rng, next_is_missing=mood == "mixed")
    # As in every panel: over a gap the close is carried, the other prices are that close, and nothing is traded.
    source = np.maximum.accumulate(np.where(kept, np.arange(len(kept))[:, None], 0), axis=0)
    close = np.take_along_axis(panel.close * factor, source, axis=0)
    changed: dict[str, Any] = {"close": close, "tradable": panel.tradable & kept, "last_bar": last_bar}
    for name in ("open", "high", "low"):
        values = getattr(panel, name)
        if values is not None:
            changed[name] = np.where(kept, values * factor, close)
    if panel.volume is not None:
        changed["volume"] = np.where(kept, panel.volume * factor, 0.0)
    events = rng.random(close.shape) < _EVENTS
    events[bar + 1 : bar + 2] = True
    if panel.dividends is not None:
        paid = np.where(events & kept, _DIVIDEND * close, 0.0)
        changed["dividends"] = np.concatenate([panel.dividends[: bar + 1], paid[later]])
    if panel.splits is not None:
        # As many halve as double, so that their product stays in bounds.
        split = np.where(events & kept, rng.choice((0.5, 2.0), close.shape), 1.0)
        changed["splits"] = np.concatenate([panel.splits[: bar + 1], split[later]])
    changed["features"] = _replaced(panel.features, later, rng)
    changed["market_features"] = _replaced(panel.market_features, later, rng)
    return replace(panel, **changed)


def _kept(panel: MarketPanel, bar: int, rng: np.random.Generator, *, next_is_missing: bool) -> tuple[Array, Array]:
    """All rows up to `bar` and the later bars that stay, (T, A), and each asset's new last bar, (A,)."""
    kept, last_bar = np.zeros_like(panel.tradable), panel.last_bar.copy()
    kept[: bar + 1] = True
    for asset in range(panel.num_assets):
        bars = bar + 1 + np.flatnonzero(panel.tradable[bar + 1 :, asset])
        if next_is_missing and len(bars) > 1 and bars[0] == bar + 1:
            bars = bars[1:]
        if not len(bars):
            continue
        # Earlier than before, wherever there is an earlier one.
        end = int(rng.integers(max(len(bars) - 1, 1)))
        stays = rng.random(end + 1) >= _GAPS
        stays[[0, end]] = True
        kept[bars[: end + 1][stays], asset] = True
        last_bar[asset] = bars[end]
    return kept, last_bar


def _replaced(values: Array, later: slice, rng: np.random.Generator) -> Array:
    made = values.copy()
    scale = np.abs(values).max(axis=0, initial=0.0) + 1.0
    made[later] = rng.normal(0.0, 1.0, made[later].shape) * scale
    return made

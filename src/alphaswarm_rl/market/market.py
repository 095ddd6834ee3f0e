"""A panel as the arrays that environments and their parts index by bar, on any device."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.core.types import Array, BackendArray
from alphaswarm_rl.core.view import Backend, View
from alphaswarm_rl.market.fills import FillPolicy, fill_prices
from alphaswarm_rl.market.panel import MarketPanel


@dataclass(frozen=True, eq=False)
class Market:
    """What the market shows, stored once for all environments.

    Arrays are the panel's own where they can be: NumPy's, or torch's on a device. A price that is not there is 0.

    Attributes:
        panel: Where it comes from.
        fill: When orders fill.
        backend: Whose arrays they are.
        close: (T, A) float64.
        fill_price: Where orders fill, by the bar of the fill, (T, A) float64.
        tradable: Where an order can be filled, (T, A) bool.
        volume: Units traded, (T, A), or None.
        ends: Where an asset has its last bar, (T, A) bool; None where none ends.
        dividends: Money per unit, (T, A), or None.
        splits: Units after one before, (T, A), or None.
        features: (T, A * K), asset after asset.
        market_features: (T, M).
    """

    panel: MarketPanel
    fill: FillPolicy
    backend: Backend
    close: Any
    fill_price: Any
    tradable: Any
    volume: Any
    ends: Any
    dividends: Any
    splits: Any
    features: Any
    market_features: Any

    @cached_property
    def assets(self) -> int:
        """A."""
        return self.panel.num_assets

    @cached_property
    def turbulence(self) -> Any:
        """The market feature `turbulence` by bar, (T,); None where the panel has none."""
        names = self.panel.market_feature_names
        return self.market_features[:, names.index("turbulence")] if "turbulence" in names else None

    def column(self, name: str) -> Any:
        """Another column of the panel, (T, A), such as `high`; 0 where there is no price."""
        values = getattr(self.panel, name)
        if values is None:
            raise DataError(f"column {name!r}", "the panel has none", "Give it, or leave out what needs it.")
        return self.backend.put(_shown(values))


def market_of(panel: MarketPanel, fill: FillPolicy, backend: Backend) -> Market:
    """The market of a panel."""
    put = backend.put
    closes = _shown(panel.close)
    opens = None if panel.open is None else _shown(panel.open)
    close = put(closes)
    ends = np.zeros(panel.close.shape, np.bool_)
    ended = np.flatnonzero((panel.last_bar >= 0) & (panel.last_bar < panel.num_bars - 1))
    ends[panel.last_bar[ended], ended] = True
    price = fill_prices(fill, opens, closes)
    tradable = panel.tradable
    if fill.lag == 0 and len(ended):
        # At the close of its last bar an asset is closed: nobody can buy it there any more.
        tradable = tradable & ~ends
    # Prices that already contain dividends and splits must not pay them a second time.
    actions = (None, None) if panel.adjusted else (panel.dividends, panel.splits)
    return Market(
        panel=panel,
        fill=fill,
        backend=backend,
        close=close,
        fill_price=close if price is closes else put(price),
        tradable=put(tradable),
        volume=None if panel.volume is None else put(panel.volume),
        ends=put(ends) if len(ended) else None,
        dividends=None if actions[0] is None or not actions[0].any() else put(actions[0]),
        splits=None if actions[1] is None or (actions[1] == 1).all() else put(actions[1]),
        features=put(panel.features.reshape(panel.num_bars, -1)),
        market_features=put(panel.market_features),
    )


def _shown(values: Array) -> Array:
    return np.nan_to_num(values, nan=0.0) if np.isnan(values).any() else values


def average_cost(view: View) -> BackendArray:
    """The average price of the units held after the view's step, (n, A): weighted by units, unchanged by sells.

    A split divides it as it multiplies units. Fills at the new bar come after its splits, fills at the old one before.
    """
    xp, market, average, positions = view.xp, view.market, view.average_cost, view.positions
    split = None if market.splits is None else market.splits[view.bar]
    if split is not None and market.fill.lag:
        average = average / split
    elif split is not None:
        positions = positions / split
    held, bought = positions > 0, xp.where(view.traded > 0, view.traded, 0.0)
    total = average * (positions - bought) + bought * view.fill_price
    after = xp.where(held, xp.where(bought > 0, total / xp.where(held, positions, 1.0), average), 0.0)
    return after if split is None or market.fill.lag else after / split

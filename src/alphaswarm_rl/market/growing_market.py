"""A market to which one bar after the other is added, at a cost that does not grow with the bars that are there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from alphaswarm_rl.arrays.backend_numpy import NUMPY
from alphaswarm_rl.arrays.moments import moment
from alphaswarm_rl.core.types import Array
from alphaswarm_rl.market.bar_row import BarRow
from alphaswarm_rl.market.fills import FillPolicy
from alphaswarm_rl.market.growing_array import GrowingArray
from alphaswarm_rl.market.market import Market, market_of
from alphaswarm_rl.market.panel import BAR_COLUMNS, MarketPanel


@dataclass(frozen=True)
class NewBar:
    """A new bar without gaps, as a panel holds it.

    Attributes:
        columns: The panel's columns, (A,) by name: closes carried over gaps, and all else as `MarketPanel` says.
        present: Where an asset has a bar.
        tradable: Where it may be traded.
    """

    columns: dict[str, Array]
    present: Array
    tradable: Array


class BarCarrier:
    """Makes bars as a panel holds them of bars as they come from outside: closes are carried over gaps.

    Args:
        panel: The bars so far.
    """

    def __init__(self, panel: MarketPanel) -> None:
        self._panel = panel
        self._close = panel.close[-1].copy()
        splits = np.ones(panel.close.shape) if panel.splits is None else panel.splits
        units = np.cumprod(splits, axis=0)
        self._units = units[-1].copy()
        newest = np.maximum(panel.last_bar, 0)
        self._since = np.take_along_axis(units, newest[None], axis=0)[0]
        self._quoted = np.take_along_axis(panel.close, newest[None], axis=0)[0]

    def add(self, row: BarRow, panel: MarketPanel) -> NewBar:
        """The bar `row`, which comes behind those of `panel`."""
        given = row.columns(panel)
        present = ~np.isnan(given["close"])
        columns = dict(given)
        if "splits" in columns:
            # Sources write 0 on days without a split, and a share stays one share then.
            splits = np.nan_to_num(columns["splits"], nan=1.0)
            columns["splits"] = np.where(splits == 0, 1.0, splits)
            self._units = self._units * columns["splits"]
        self._quoted = np.where(present, given["close"], self._quoted)
        self._since = np.where(present, self._units, self._since)
        same = self._units == self._since
        columns["close"] = self._quoted * np.where(same, 1.0, self._since / self._units)
        for name in ("open", "high", "low"):
            if name in columns:
                columns[name] = np.where(present, columns[name], columns["close"])
        if "volume" in columns:
            columns["volume"] = np.where(present, columns["volume"], 0.0)
        if "dividends" in columns:
            columns["dividends"] = np.nan_to_num(columns["dividends"], nan=0.0)
        return NewBar(columns, present, row.flags(present))


class GrowingMarket:
    """The market of a panel, and of more bars behind it; equal to `market_of` of all of them.

    Args:
        panel: The bars so far with their features, as the agent sees them.
        fill: When orders fill.

    Attributes:
        market: The market of all bars so far; what was handed out before stays as it is.
    """

    def __init__(self, panel: MarketPanel, fill: FillPolicy) -> None:
        self.market = market_of(panel, fill, NUMPY)
        names = [*(name for name in BAR_COLUMNS if getattr(panel, name) is not None), "timestamps", "tradable"]
        names += ["features", "market_features"]
        self._columns = {name: GrowingArray(getattr(panel, name)) for name in names}
        self._shown = {"close": GrowingArray(self.market.close), "fill_price": GrowingArray(self.market.fill_price)}
        self._pays = {name: self._acts(panel, name) for name in ("dividends", "splits")}

    @staticmethod
    def _acts(panel: MarketPanel, name: str) -> bool:
        """Whether dividends or splits did anything so far; prices that contain them already pay nothing."""
        values = None if panel.adjusted else getattr(panel, name)
        return values is not None and bool((values != (1.0 if name == "splits" else 0.0)).any())

    def add(
        self, row: BarRow, bar: NewBar, features: Array, market_features: Array, defined: Array, market_defined: Array
    ) -> Market:
        """The market with one more bar.

        Args:
            row: The bar as it came.
            bar: The bar as the panel holds it.
            features: Its features as the agent sees them, (A, K).
            market_features: Those of the market, (M,).
            defined: Which features of assets are defined by now, (A, K) bool.
            market_defined: Which of the market's are, (M,) bool.
        """
        before = self.market.panel
        new: dict[str, Any] = {
            **bar.columns,
            "timestamps": moment(row.timestamp),
            "tradable": bar.tradable,
            "features": features.astype(before.dtype),
            "market_features": market_features.astype(before.dtype),
        }
        length = before.num_bars
        undefined = (before.feature_from == length) & ~defined
        unknown = (before.market_feature_from == length) & ~market_defined
        columns: dict[str, Any] = {name: rows.add(np.asarray(new[name])[None]) for name, rows in self._columns.items()}
        panel = replace(
            before,
            **columns,
            last_bar=np.where(bar.present, length, before.last_bar),
            feature_from=np.where(undefined, length + 1, before.feature_from),
            market_feature_from=np.where(unknown, length + 1, before.market_feature_from),
        )
        for name in self._pays:
            self._pays[name] = self._pays[name] or self._acts(panel.cut(length - 1, length + 1), name)
        self.market = self._market(panel, bar)
        return self.market

    def _market(self, panel: MarketPanel, bar: NewBar) -> Market:
        fill = self.market.fill
        filled = bar.columns["open" if fill.price == "open" else "close"]
        close = self._shown["close"].add(np.nan_to_num(bar.columns["close"], nan=0.0)[None])
        ended = np.flatnonzero((panel.last_bar >= 0) & (panel.last_bar < panel.num_bars - 1))
        ends = None
        tradable = panel.tradable
        if len(ended):
            ends = np.zeros(panel.close.shape, np.bool_)
            ends[panel.last_bar[ended], ended] = True
            tradable = tradable if fill.lag else tradable & ~ends
        return Market(
            panel=panel,
            fill=fill,
            backend=NUMPY,
            close=close,
            fill_price=self._shown["fill_price"].add(np.nan_to_num(filled, nan=0.0)[None]),
            tradable=tradable,
            volume=panel.volume,
            ends=ends,
            dividends=panel.dividends if self._pays["dividends"] else None,
            splits=panel.splits if self._pays["splits"] else None,
            features=panel.features.reshape(panel.num_bars, -1),
            market_features=panel.market_features,
        )

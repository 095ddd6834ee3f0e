"""One new bar of every asset, as it comes from outside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from alphaswarm_rl.arrays.moments import Moment, moment, shown
from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.core.types import Array
from alphaswarm_rl.market.panel import BAR_COLUMNS, MarketPanel
from alphaswarm_rl.market.panel_checks import check_bars


@dataclass(frozen=True, kw_only=True)
class BarRow:
    """The bar of one moment; arrays (A,) are in the order of the panel's assets, NaN where an asset has no bar.

    Attributes:
        timestamp: Its label.
        close: Closing prices.
        open: Opening prices; the columns that the panel has must be given, and no others.
        high: Highest prices.
        low: Lowest prices.
        volume: Units traded.
        dividends: Cash per share that goes ex at the bar; None: none.
        splits: Shares after one share before the bar; None: none.
        tradable: Where it may be traded; None: wherever there is a bar.
        features: Features that the data pipeline takes as they are, by name; NaN repeats the last value.
        market_features: The same of the whole market, such as the vix.
    """

    timestamp: Moment
    close: Array
    open: Array | None = None
    high: Array | None = None
    low: Array | None = None
    volume: Array | None = None
    dividends: Array | None = None
    splits: Array | None = None
    tradable: Array | None = None
    features: Mapping[str, Array] = field(default_factory=dict)
    market_features: Mapping[str, float] = field(default_factory=dict)

    def columns(self, panel: MarketPanel) -> dict[str, Array]:
        """Its columns (A,) float64, checked: those of the panel, in its order, behind its last bar."""
        if not moment(self.timestamp) > panel.timestamps[-1]:
            raise DataError(
                f"the bar of {shown(moment(self.timestamp))}",
                f"the last one was that of {shown(panel.timestamps[-1])}",
                "Give bars in their order, each once.",
            )
        found = {}
        for name in BAR_COLUMNS:
            values = getattr(self, name)
            if values is None and getattr(panel, name) is not None:
                if name not in ("dividends", "splits"):
                    raise DataError(f"column {name!r}", "the bars so far have it and this one does not", "Give it.")
                values = np.full(panel.num_assets, np.nan)
            elif values is not None and getattr(panel, name) is None:
                raise DataError(f"column {name!r}", "the bars so far do not have it", "Leave it out.")
            if values is not None:
                found[name] = _numbers(values, name, panel)
        check_bars(found, lambda index: f"the bar of {shown(moment(self.timestamp))} (asset {panel.assets[index]!r})")
        return found

    def flags(self, present: Array) -> Array:
        """Where it may be traded, (A,) bool; `present` is where an asset has a bar."""
        if self.tradable is None:
            return present
        flags = np.asarray(self.tradable)
        if flags.shape != present.shape or flags.dtype != np.bool_:
            raise DataError("array 'tradable'", f"it is {flags.dtype} {flags.shape}", f"Give bool {present.shape}.")
        return np.asarray(present & flags)


def _numbers(values: Array, name: str, panel: MarketPanel) -> Array:
    array = np.asarray(values)
    if array.shape != (panel.num_assets,) or array.dtype.kind not in "fiu":
        raise DataError(
            f"column {name!r}", f"it is {array.dtype} {array.shape}", f"Give one number for each of {panel.num_assets}."
        )
    return array.astype(np.float64)

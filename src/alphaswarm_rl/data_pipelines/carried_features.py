"""Features of one new bar after the other, equal to those of the whole history to the last bit.

What looks back over a window is computed on the asset's last bars, by the functions of `indicators`. What remembers all
bars, the exponential means, goes on from a mean and its weight. Turbulence is computed on the last bars of the market.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.core.types import Array
from alphaswarm_rl.data_pipelines import indicators
from alphaswarm_rl.data_pipelines.feature_names import IndicatorName, parse_indicator
from alphaswarm_rl.market.panel import MarketPanel
from alphaswarm_rl.market.unit_factor import unit_factor

#: Indicators that remember all bars, and the factor of their means' newest value.
_MACD_ALPHAS = (2 / 13, 2 / 27)


@dataclass
class CarriedMean:
    """Exponential means of A series, as `indicators.exponential_mean` computes them, from bar to bar.

    Attributes:
        decay: What a bar leaves of the weight of those before it.
        mean: The means, (A,).
        weight: The sum of all weights so far, that of the newest value being 1; 0 before the first.
    """

    decay: float
    mean: Array
    weight: Array

    @classmethod
    def of(cls, alpha: float, series: Sequence[Array]) -> CarriedMean:
        """The means after these series, one for each asset, which may be of different lengths."""
        # The way to the factor is pandas' own, by the centre of mass: another one rounds differently.
        decay = 1.0 - 1.0 / (1.0 + (1.0 - alpha) / alpha)
        weights = [0.0]
        for _ in range(max(map(len, series), default=0)):
            weights.append(weights[-1] * decay + 1.0)
        last = [indicators.exponential_mean(values[:, None], alpha)[-1, 0] if len(values) else 0.0 for values in series]
        return cls(decay, np.array(last), np.array([weights[len(values)] for values in series]))

    def add(self, values: Array, where: Array) -> Array:
        """Takes new values (A,) in, `where` there are any; the means now."""
        before = self.weight * self.decay
        total = before + 1.0
        mean = (before * self.mean + values) / total
        mean = np.where(self.weight == 0, values, np.where(self.mean == values, self.mean, mean))
        self.mean = np.where(where, mean, self.mean)
        self.weight = np.where(where, total, self.weight)
        return self.mean


class CarriedIndicators:
    """The indicators of a panel's assets, from bar to bar.

    Args:
        panel: The bars so far; its features are not looked at.
        names: The indicators.
    """

    def __init__(self, panel: MarketPanel, names: Sequence[str]) -> None:
        self._named = [parse_indicator(name) for name in names]
        self._splits = not panel.adjusted and panel.splits is not None
        units = unit_factor(panel)
        self._units = units[-1].copy()
        self._bars = panel.tradable.sum(axis=0)
        needs = sorted({column for named in self._named for column in named.needs})
        for named in self._named:
            for column in named.needs:
                if getattr(panel, column) is None:
                    raise DataError(
                        f"feature {named.name!r}",
                        f"it needs the column {column!r}, which the panel lacks",
                        "Leave it out, or use data with that column.",
                    )
        series = {
            column: [
                (getattr(panel, column) * units)[panel.tradable[:, asset], asset] for asset in range(panel.num_assets)
            ]
            for column in needs
        }
        self._length = max((_rows(named) for named in self._named), default=1)
        self._last = {column: _ends(values, self._length) for column, values in series.items()}
        self._means = {(named.kind, named.window): _means(named, series) for named in self._named}
        self._values: dict[str, Array] = {}
        self._carry_from(panel, units)

    def _carry_from(self, panel: MarketPanel, units: Array) -> None:
        """The last value of each indicator, in units of the first bar where it is a price; NaN before the first."""
        from alphaswarm_rl.data_pipelines.features import indicator

        for named in self._named:
            values = indicator(panel, named)
            if named.in_price and self._splits:
                values = values * units
            known = ~np.isnan(values)
            newest = len(values) - 1 - known[::-1].argmax(axis=0)
            last = np.take_along_axis(values, newest[None], axis=0)[0]
            self._values[named.name] = np.where(known.any(axis=0), last, np.nan)

    @property
    def defined(self) -> Array:
        """Which indicators of assets are defined by now, (A, K) bool."""
        values = [self._values[named.name] for named in self._named]
        return np.asarray(~np.isnan(np.array(values).reshape(len(values), len(self._bars)).T))

    def add(self, columns: dict[str, Array], tradable: Array, close: Array) -> Array:
        """Takes a bar in: its indicators, (A, K) float64.

        Args:
            columns: Prices and splits of the bar, (A,) by name.
            tradable: Which assets have a bar that counts.
            close: Closes, carried over gaps; NaN before the first.
        """
        if self._splits:
            self._units = self._units * columns["splits"]
        before = {column: last[-1].copy() for column, last in self._last.items()}
        for column, last in self._last.items():
            last[:-1, tradable] = last[1:, tradable]
            last[-1, tradable] = (columns[column] * self._units)[tradable]
        self._bars = self._bars + tradable
        found = []
        for named in self._named:
            values = self._indicator(named, before, tradable)
            found.append(self._carried(named, values, tradable, close))
        return np.array(found).reshape(len(found), len(close)).T

    def _carried(self, named: IndicatorName, values: Array, tradable: Array, close: Array) -> Array:
        """The indicator where the asset has a bar and it is defined, its last value or the neutral one elsewhere."""
        values = np.where(tradable & (self._bars > named.first), values, np.nan)
        neutral = np.nan_to_num(close, nan=0.0) if named.neutral == "close" else named.neutral
        if not named.in_price:
            kept = self._values[named.name] = np.where(np.isnan(values), self._values[named.name], values)
            return np.where(np.isnan(kept), neutral, kept)
        values = values / self._units
        renamed = values * self._units if self._splits else values
        kept = np.where(np.isnan(values), self._values[named.name], renamed)
        self._values[named.name] = kept
        carried = kept / self._units if self._splits else kept
        return np.where(np.isnan(values), np.where(np.isnan(kept), neutral, carried), values)

    def _indicator(self, named: IndicatorName, before: dict[str, Array], where: Array) -> Array:
        """The formula at the new bar, (A,), in units of the first one."""
        if named.kind in ("macd", "rsi", "dx", "atr"):
            return self._by_means(named, before, where)
        columns = [self._last[column][-_rows(named) :] for column in named.needs]
        with np.errstate(invalid="ignore"):  # rows that an asset does not have yet are NaN
            if named.kind in ("boll_lb", "boll_ub"):
                lower, upper = indicators.bollinger(columns[0], named.window)
                return np.asarray((lower if named.kind == "boll_lb" else upper)[-1])
            return np.asarray(getattr(indicators, named.kind)(*columns, named.window)[-1])

    def _by_means(self, named: IndicatorName, before: dict[str, Array], where: Array) -> Array:
        means = self._means[named.kind, named.window]
        moves = _moves(
            named.kind, [before[name] for name in named.needs], [self._last[name][-1] for name in named.needs]
        )
        first, *rest = [mean.add(values, where) for mean, values in zip(means, moves, strict=True)]
        if named.kind == "macd":
            return np.asarray(first - rest[0])
        if named.kind == "rsi":
            return np.asarray(100.0 * indicators.ratio(first, first + rest[0], otherwise=0.5))
        if named.kind == "dx":
            return np.asarray(100.0 * indicators.ratio(np.abs(first - rest[0]), first + rest[0], otherwise=0.0))
        return first


def _rows(named: IndicatorName) -> int:
    """Own bars that an indicator that looks back over a window needs."""
    return named.window + 1 if named.kind in ("returns", "volatility") else named.window


def _ends(series: Sequence[Array], length: int) -> Array:
    """The last `length` values of each series, (length, A); NaN where one is shorter."""
    out = np.full((length, len(series)), np.nan)
    for asset, values in enumerate(series):
        kept = values[-length:]
        out[length - len(kept) :, asset] = kept
    return out


def _means(named: IndicatorName, series: dict[str, list[Array]]) -> list[CarriedMean]:
    """The exponential means of an indicator after the bars so far; none where it has none."""
    if named.kind not in ("macd", "rsi", "dx", "atr"):
        return []
    by_asset = []
    for columns in zip(*(series[name] for name in named.needs), strict=True):
        before = [np.concatenate([values[:1] * np.nan, values[:-1]]) for values in columns]
        by_asset.append(_moves(named.kind, before, list(columns)))
    alphas = _MACD_ALPHAS if named.kind == "macd" else (1 / named.window,) * len(by_asset[0])
    return [
        CarriedMean.of(alpha, list(moves)) for alpha, moves in zip(alphas, zip(*by_asset, strict=True), strict=True)
    ]


def _moves(kind: str, before: list[Array], now: list[Array]) -> tuple[Array, ...]:
    """What an indicator takes exponential means of, from a bar and the one before it, NaN where there was none."""
    if kind == "macd":
        return now[0], now[0]
    if kind == "rsi":
        change = _change(before[0], now[0])
        return np.maximum(change, 0.0), np.maximum(-change, 0.0)
    if kind == "dx":
        rise, fall = _change(before[0], now[0]), -_change(before[1], now[1])
        up = np.where((rise > 0) & (rise > fall), rise, 0.0)
        return up, np.where((fall > 0) & (fall > rise), fall, 0.0)
    high, low, close = now
    last = np.where(np.isnan(before[2]), close, before[2])
    return (np.maximum(high - low, np.maximum(np.abs(high - last), np.abs(low - last))),)


def _change(before: Array, now: Array) -> Array:
    return np.where(np.isnan(before), 0.0, now - before)

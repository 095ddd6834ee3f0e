"""The history of a data pipeline, to which one bar after the other is added with its features.

Each bar's features equal those that the pipeline computes of the whole history, to the last bit.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from alphaswarm_rl.arrays.moments import moment
from alphaswarm_rl.core.contracts import State
from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.data_pipelines.carried_features import CarriedIndicators
from alphaswarm_rl.data_pipelines.feature_names import turbulence_window
from alphaswarm_rl.data_pipelines.features import turbulence
from alphaswarm_rl.data_pipelines.pipeline import PanelPipeline
from alphaswarm_rl.market.bar_row import BarRow
from alphaswarm_rl.market.fills import FillPolicy
from alphaswarm_rl.market.growing_market import BarCarrier, GrowingMarket, NewBar
from alphaswarm_rl.market.market import Market
from alphaswarm_rl.market.panel import BAR_COLUMNS, FEWEST_BARS, MarketPanel


class CarriedHistory:
    """The market as a policy sees it, bar by bar.

    Args:
        pipeline: Where the bars come from: it says the features and their scaler.
        fitted: What the scaler learnt in training.
        bars: All bars so far with their features, as the pipeline builds them, before any scaling.
        first: The first bar that the market has; features look further back.
        warmup: How many of the market's bars may be looked at but not traded.
        fill: When orders fill.
    """

    def __init__(
        self, pipeline: PanelPipeline, fitted: State, bars: MarketPanel, *, first: int, warmup: int, fill: FillPolicy
    ) -> None:
        config = pipeline.config
        computed = tuple(config.features)
        self._taken = bars.feature_names[: len(bars.feature_names) - len(computed)]
        if (*self._taken, *computed) != bars.feature_names or tuple(
            config.market_features
        ) != bars.market_feature_names:
            raise DataError(
                f"bars with the features {', '.join((*bars.feature_names, *bars.market_feature_names)) or 'none'}",
                f"the data pipeline computes {', '.join((*computed, *config.market_features)) or 'none'}",
                "Give bars as the pipeline builds them.",
            )
        self._pipeline, self._fitted = pipeline, fitted
        self._indicators = CarriedIndicators(bars, computed)
        self._carrier = BarCarrier(bars)
        self._seen = GrowingMarket(pipeline.apply(bars.cut(first, bars.num_bars, warmup=warmup), fitted), fill)
        self._known = bars.feature_from < bars.num_bars
        self._market_known = bars.market_feature_from < bars.num_bars
        lookbacks = [turbulence_window(name) for name in config.market_features]
        #: Bars that turbulence at the newest one is computed from.
        self._reach = max([FEWEST_BARS, *(lookback + 2 for lookback in lookbacks if lookback is not None)])
        self._recent = bars.cut(max(0, bars.num_bars - self._reach), bars.num_bars)

    @property
    def market(self) -> Market:
        """The market that the policy sees."""
        return self._seen.market

    def add(self, row: BarRow) -> Market:
        """The market with one more bar."""
        self._refuse_other_features(row)
        bar = self._carrier.add(row, self._recent)
        self._recent = self._with(row, bar)
        seen = self._pipeline.apply(self._recent, self._fitted)
        return self._seen.add(row, bar, seen.features[-1], seen.market_features[-1], self._known, self._market_known)

    def _with(self, row: BarRow, bar: NewBar) -> MarketPanel:
        """The recent bars with the new one, its features among them."""
        before, keep = self._recent, 1 - self._reach
        computed = self._indicators.add(bar.columns, bar.tradable, bar.columns["close"])
        taken = np.array([np.asarray(row.features[name], np.float64) for name in self._taken])
        taken = taken.reshape(len(self._taken), len(before.assets)).T
        unknown = np.isnan(taken)
        taken = np.where(unknown, before.features[-1, :, : len(self._taken)], taken)
        self._known[:, : len(self._taken)] |= ~unknown
        self._known[:, len(self._taken) :] = self._indicators.defined
        features = np.concatenate([taken, computed], axis=1).astype(before.dtype)
        columns = {name: bar.columns[name] for name in BAR_COLUMNS if name in bar.columns}
        rows = {
            **columns,
            "tradable": bar.tradable,
            "features": features,
            "market_features": before.market_features[-1],
        }
        length = min(before.num_bars + 1, self._reach)
        behind: dict[str, Any] = {
            name: np.concatenate([getattr(before, name)[keep:], new[None]]) for name, new in rows.items()
        }
        panel = replace(
            before,
            timestamps=np.append(before.timestamps[keep:], moment(row.timestamp)),
            **behind,
            last_bar=np.where(
                bar.present, length - 1, np.maximum(before.last_bar - (before.num_bars + 1 - length), -1)
            ),
            warmup=0,
        )
        values = np.array([self._market_feature(name, row, panel) for name in panel.market_feature_names])
        self._market_known |= ~np.isnan(values)
        last = np.where(np.isnan(values), before.market_features[-1], values).astype(before.dtype)
        return replace(panel, market_features=np.concatenate([panel.market_features[:-1], last[None]]))

    def _market_feature(self, name: str, row: BarRow, panel: MarketPanel) -> float:
        """A feature of the market at the newest bar; NaN where it is not known."""
        lookback = turbulence_window(name)
        if lookback is None:
            return float(row.market_features[name])
        bars = panel.cut(max(0, panel.num_bars - lookback - 2), panel.num_bars)
        return float(turbulence(bars, lookback)[-1])

    def _refuse_other_features(self, row: BarRow) -> None:
        """Refuses a bar without a feature that the pipeline takes as it is, and one with another."""
        given = tuple(name for name in self._recent.market_feature_names if turbulence_window(name) is None)
        _refuse_other_names("feature", row.features, self._taken)
        _refuse_other_names("market feature", row.market_features, given)
        for name, values in row.features.items():
            if np.shape(values) != (len(self._recent.assets),) or np.isinf(values).any():
                raise DataError(f"feature {name!r}", "it is not one finite number, or NaN, per asset", "Mend it.")


def _refuse_other_names(what: str, names: Collection[str], needed: Sequence[str]) -> None:
    for name in needed:
        if name not in names:
            why = "the bar lacks it, and the data pipeline takes it as it is"
            raise DataError(f"{what} {name!r}", why, "Give it.")
    for name in names:
        if name not in needed:
            raise DataError(f"{what} {name!r}", "the policy sees none of that name", "Leave it out.")

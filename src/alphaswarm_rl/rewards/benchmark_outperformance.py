"""Doing better than the market."""

from __future__ import annotations

from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.errors import DataError, nearest
from alphaswarm_rl.core.kinds import RewardTerm
from alphaswarm_rl.core.types import BackendArray, NamedArrays
from alphaswarm_rl.core.view import Panel, View
from alphaswarm_rl.rewards.step_return import step_return


class BenchmarkOutperformance(RewardTerm):
    """The account's return minus the benchmark's: all assets in equal parts, or one of them.

    The benchmark's return is from close to close, with dividends and splits and without costs. In equal parts it is the
    mean over the assets that could be traded at both bars, 0 where there is none. One asset's is 0 before it has two
    prices, and over a gap it comes with the next price.
    """

    rl_alias = "benchmark_outperformance"
    rl_category = "risk-adjusted"

    class Config(ComponentConfig):
        """Parameters of the comparison."""

        asset: str | None = Field(None, description="The asset to do better than; null: all in equal parts.")

    def prepare(self, panel: Panel) -> NamedArrays:
        """The benchmark's return from the bar before, (T,)."""
        import numpy as np

        close, unpriced = panel.close, np.isnan(panel.close)
        worth = close
        if not panel.adjusted:
            worth = close if panel.dividends is None else close + panel.dividends
            worth = worth if panel.splits is None else worth * panel.splits
        change = np.zeros(close.shape)
        known = ~(unpriced[1:] | unpriced[:-1])
        np.divide(worth[1:], close[:-1], out=change[1:], where=known)
        change[1:] -= known
        asset = self.config.asset
        if asset is None:
            both = np.zeros(close.shape, np.bool_)
            both[1:] = panel.tradable[1:] & panel.tradable[:-1]
            return {"benchmark": (change * both).sum(axis=-1) / np.maximum(both.sum(axis=-1), 1)}
        if asset not in panel.assets:
            raise DataError(
                f"asset {asset!r}",
                "the reward 'benchmark_outperformance' compares with it and the panel has none of that name",
                nearest(asset, panel.assets),
            )
        return {"benchmark": np.ascontiguousarray(change[:, panel.assets.index(asset)])}

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes the difference of returns."""
        out[...] = step_return(view) - state["benchmark"][view.bar]

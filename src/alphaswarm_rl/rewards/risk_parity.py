"""The cost of risk that is spread unequally."""

from __future__ import annotations

from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.core.kinds import RewardTerm
from alphaswarm_rl.core.types import BackendArray, NamedArrays
from alphaswarm_rl.core.view import Panel, View

#: A variance below this is none.
_EPSILON = 1e-16
#: Bytes that the covariances of all bars may take.
_LARGEST_TABLE = 2**32


class RiskParity(RewardTerm):
    """Minus `weight` times the part of the risk that had to move for all assets to carry the same.

    With weights w and the covariance S of the last `lookback` returns, asset i carries w_i (S w)_i of the variance
    w'Sw. The distance is half the sum of |share_i - 1/m| over the m assets that have a variance: 0 at risk parity,
    1 - 1/m where one asset carries everything. Hedges, whose shares have both signs, count as 1 at most. 0 where
    nothing is held, and where fewer than two assets have a variance.
    """

    rl_alias = "risk_parity"
    rl_category = "risk"

    class Config(ComponentConfig):
        """Parameters of risk parity."""

        weight: float = Field(1.0, ge=0, description="Reward lost when all the risk had to move.")
        lookback: int = Field(60, ge=2, description="Returns that the covariance is made from.")

    def prepare(self, panel: Panel) -> NamedArrays:
        """The covariance by bar, (T, A, A)."""
        from alphaswarm_rl.market.covariance import covariance

        if panel.num_bars * panel.num_assets**2 * 8 > _LARGEST_TABLE:
            raise DataError(
                f"the covariances of {panel.num_assets} assets at {panel.num_bars} bars",
                "the reward 'risk_parity' keeps one per bar, and they would take more than 4 GiB",
                "Use fewer assets or a shorter window, or leave that reward out.",
            )
        return {"covariance": covariance(panel, self.config.lookback)}

    def warmup_bars(self) -> int:
        """Those of the first return, so that there is a covariance at the first reward."""
        return int(self.config.lookback) - 1

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes the penalty."""
        xp, weights, covariance = view.xp, view.weights, state["covariance"][view.bar]
        carried = weights * xp.sum(covariance * weights[:, None, :], axis=-1)
        variance = xp.sum(carried, axis=-1)
        own = xp.stack([covariance[:, i, i] for i in range(view.market.assets)], axis=-1)
        counts = own > _EPSILON
        number = xp.sum(xp.where(counts, 1.0, 0.0), axis=-1)
        defined = (variance > _EPSILON) & (number > 1.5)
        share = carried / xp.where(defined, variance, 1.0)[:, None]
        equal = 1.0 / xp.where(defined, number, 1.0)
        apart = 0.5 * xp.sum(xp.where(counts, xp.abs(share - equal[:, None]), 0.0), axis=-1)
        out[...] = xp.where(defined, -self.config.weight * xp.clip(apart, 0.0, 1.0), 0.0)

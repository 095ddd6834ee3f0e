"""The least variance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alphaswarm_rl.core.kinds import Policy
from alphaswarm_rl.policies.trailing import TrailingConfig

if TYPE_CHECKING:
    from alphaswarm_rl.core.contracts import PolicyRequest, PolicyRunner


class MinimumVariancePolicy(Policy):
    """The weights that would have had the least variance over the last `lookback` bars, long only, fully invested.

    They minimise w'Sw, with S the sample covariance of simple returns, over the assets that can be traded, have a
    price on every bar of the lookback and moved in it. Weights are equal where the lookback is not there yet, or fewer
    than two assets are left. Between rebalancings positions are held as `buy_and_hold` holds them. (Markowitz 1952.)
    """

    rl_alias = "minimum_variance"
    rl_category = "baseline"
    rl_tags = ("baseline", "market")

    class Config(TrailingConfig):
        """Parameters of minimum variance."""

    def warmup_bars(self) -> int:
        """So many that there is a whole lookback of returns on the first day."""
        return int(self.config.lookback)

    def build(self, request: PolicyRequest) -> PolicyRunner:
        """The policy for that trading environment; another environment, or an action without weights, is an error."""
        from alphaswarm_rl.policies.allocation import MeanRiskWeights
        from alphaswarm_rl.policies.market_runner import MarketRunner

        allocate = MeanRiskWeights(self.rl_alias, lookback=self.config.lookback, objective="minimum_variance")
        return MarketRunner(self.rl_alias, request, allocate, every=self.config.rebalance_bars)

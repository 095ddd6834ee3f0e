"""The best of mean and variance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from alphaswarm_rl.core.kinds import Policy
from alphaswarm_rl.policies.trailing import TrailingConfig

if TYPE_CHECKING:
    from alphaswarm_rl.core.contracts import PolicyRequest, PolicyRunner


class MeanVariancePolicy(Policy):
    """The weights with the highest mean minus `risk_aversion` times variance over the last `lookback` bars, long only.

    They maximise w'm - risk_aversion * w'Sw with sum(w) = 1, m the mean and S the sample covariance of simple returns
    per bar; as both grow with the length of a bar, annualising would change nothing. Unlike a ratio of the two, this
    has a solution when all means are negative. Assets, equal weights where there is no history, and what happens
    between rebalancings are as in `minimum_variance`. (Markowitz 1952.)
    """

    rl_alias = "mean_variance"
    rl_category = "baseline"
    rl_tags = ("baseline", "market")

    class Config(TrailingConfig):
        """Parameters of mean and variance."""

        risk_aversion: float = Field(1.0, ge=0, description="What a unit of variance costs, in units of mean return.")

    def warmup_bars(self) -> int:
        """So many that there is a whole lookback of returns on the first day."""
        return int(self.config.lookback)

    def build(self, request: PolicyRequest) -> PolicyRunner:
        """The policy for that trading environment; another environment, or an action without weights, is an error."""
        from alphaswarm_rl.policies.allocation import MeanRiskWeights
        from alphaswarm_rl.policies.market_runner import MarketRunner

        allocate = MeanRiskWeights(
            self.rl_alias,
            lookback=self.config.lookback,
            objective="utility",
            risk_aversion=self.config.risk_aversion,
        )
        return MarketRunner(self.rl_alias, request, allocate, every=self.config.rebalance_bars)

"""The same weight for every asset."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.kinds import Policy

if TYPE_CHECKING:
    from alphaswarm_rl.core.contracts import PolicyRequest, PolicyRunner


class EqualWeightPolicy(Policy):
    """Equal weights of all assets that can be traded now, restored every `rebalance_bars` bars.

    In between, positions are held as `buy_and_hold` holds them.
    """

    rl_alias = "equal_weight"
    rl_category = "baseline"
    rl_tags = ("baseline", "market")

    class Config(ComponentConfig):
        """Parameters of equal weights."""

        rebalance_bars: int = Field(1, ge=1, description="Bars from one rebalancing to the next.")

    def build(self, request: PolicyRequest) -> PolicyRunner:
        """The policy for that trading environment; another environment, or an action without weights, is an error."""
        from alphaswarm_rl.policies.allocation import equal_weights
        from alphaswarm_rl.policies.market_runner import MarketRunner

        return MarketRunner(self.rl_alias, request, equal_weights, every=self.config.rebalance_bars)

"""Buying once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alphaswarm_rl.core.kinds import Policy

if TYPE_CHECKING:
    from alphaswarm_rl.core.contracts import PolicyRequest, PolicyRunner


class BuyAndHoldPolicy(Policy):
    """Equal weights of all assets that can be traded at the start of an episode, then held to its end.

    An asset that starts later is not bought, and the money of one that ends stays cash. Where the action's largest
    order cuts a purchase, it goes on over the next bars.

    With orders in units, to hold is to order nothing. With weights, it is to aim at the weights of the close that was
    seen, which is exact only where orders fill at that very close. A later fill brings those weights back after the
    prices' moves in between; at `next_close` that is a rebalancing on every bar.
    """

    rl_alias = "buy_and_hold"
    rl_category = "baseline"
    rl_tags = ("baseline", "market")

    def build(self, request: PolicyRequest) -> PolicyRunner:
        """The policy for that trading environment; another environment, or an action without weights, is an error."""
        from alphaswarm_rl.policies.allocation import equal_weights
        from alphaswarm_rl.policies.market_runner import MarketRunner

        return MarketRunner(self.rl_alias, request, equal_weights, every=None)

"""The baselines: policies that learn nothing, to measure agents against.

Two need no market (one constant action, random actions); four look at the market and aim at weights of its assets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.kinds import Policy

if TYPE_CHECKING:
    from alphaswarm_rl.core.contracts import PolicyRequest, PolicyRunner
    from alphaswarm_rl.statistics.allocations import Allocation


class _PlainPolicy(Policy):
    """The base of baselines for any action space."""

    rl_category = "baseline"
    rl_tags = ("baseline", "discrete", "continuous")


class _MarketPolicy(Policy):
    """The base of baselines that look at a market: equal weights, unless a subclass has another allocation."""

    rl_category = "baseline"
    rl_tags = ("baseline", "market")
    looks_at_market = True

    def allocation(self) -> Allocation:
        """The rule for target weights."""
        from alphaswarm_rl.statistics.allocations import equal_weights

        return equal_weights

    def build(self, request: PolicyRequest) -> PolicyRunner:
        """The policy for that trading environment; another environment, or an action without weights, is an error."""
        from alphaswarm_rl.policies.market_runner import MarketRunner

        every = getattr(self.config, "rebalance_bars", None)
        return MarketRunner(self.rl_alias, request, self.allocation(), every=every)


class ConstantPolicy(_PlainPolicy):
    """One action, always."""

    rl_alias = "constant"

    class Config(ComponentConfig):
        """Parameters of the constant policy."""

        action: int | float | tuple[int | float, ...] | None = Field(
            None,
            description="The action: a number (for every entry of the action) or a list with one number per entry. "
            "Null is the middle of a Box, and the first action of a discrete space.",
        )

    def build(self, request: PolicyRequest) -> PolicyRunner:
        """The policy for that action space; an action outside it is an error."""
        from alphaswarm_rl.policies.runners import ConstantRunner, constant_action

        return ConstantRunner(constant_action(self.config.action, request.action_space))


class RandomPolicy(_PlainPolicy):
    """Actions drawn uniformly from the action space, whatever is observed."""

    rl_alias = "random"

    def build(self, request: PolicyRequest) -> PolicyRunner:
        """The policy with a random stream of its own; an unbounded space is an error."""
        from alphaswarm_rl.policies.runners import RandomRunner

        return RandomRunner(request.action_space, request.seed)


class BuyAndHoldPolicy(_MarketPolicy):
    """Equal weights of all assets that can be traded at the start of an episode, then held to its end.

    An asset that starts later is not bought, and the money of one that ends stays cash. Where the action's largest
    order cuts a purchase, it goes on over the next bars.

    With orders in units, to hold is to order nothing. With weights, it is to aim at the weights of the close that was
    seen, which is exact only where orders fill at that very close. A later fill brings those weights back after the
    prices' moves in between; at `next_close` that is a rebalancing on every bar.
    """

    rl_alias = "buy_and_hold"


class EqualWeightPolicy(_MarketPolicy):
    """Equal weights of all assets that can be traded now, restored every `rebalance_bars` bars.

    In between, positions are held as `buy_and_hold` holds them.
    """

    rl_alias = "equal_weight"

    class Config(ComponentConfig):
        """Parameters of equal weights."""

        rebalance_bars: int = Field(1, ge=1, description="Bars from one rebalancing to the next.")


class TrailingConfig(ComponentConfig):
    """Parameters of every policy that looks back at returns."""

    lookback: int = Field(252, ge=2, description="Returns up to the decision's bar that are looked at.")
    rebalance_bars: int = Field(21, ge=1, description="Bars from one rebalancing to the next.")


class _TrailingPolicy(_MarketPolicy):
    """The base of baselines that look back at returns."""

    class Config(TrailingConfig):
        """Only the shared parameters."""

    def warmup_bars(self) -> int:
        """So many that there is a whole lookback of returns on the first day."""
        return int(self.config.lookback)


class MinimumVariancePolicy(_TrailingPolicy):
    """The weights that would have had the least variance over the last `lookback` bars, long only, fully invested.

    They minimise w'Sw, with S the sample covariance of simple returns, over the assets that can be traded, have a
    price on every bar of the lookback and moved in it. Weights are equal where the lookback is not there yet, or fewer
    than two assets are left. Between rebalancings positions are held as `buy_and_hold` holds them. (Markowitz 1952.)
    """

    rl_alias = "minimum_variance"

    class Config(TrailingConfig):
        """Parameters of minimum variance."""

    def allocation(self) -> Allocation:
        """The optimum of trailing returns."""
        from alphaswarm_rl.statistics.allocations import TrailingWeights

        return TrailingWeights(f"policy {self.rl_alias!r}", self.config.lookback, "minimum_variance")


class MeanVariancePolicy(_TrailingPolicy):
    """The weights with the highest mean minus `risk_aversion` times variance over the last `lookback` bars, long only.

    They maximise w'm - risk_aversion * w'Sw with sum(w) = 1, m the mean and S the sample covariance of simple returns
    per bar; as both grow with the length of a bar, annualising would change nothing. Unlike a ratio of the two, this
    has a solution when all means are negative. Assets, equal weights where there is no history, and what happens
    between rebalancings are as in `minimum_variance`. (Markowitz 1952.)
    """

    rl_alias = "mean_variance"

    class Config(TrailingConfig):
        """Parameters of mean and variance."""

        risk_aversion: float = Field(1.0, ge=0, description="What a unit of variance costs, in units of mean return.")

    def allocation(self) -> Allocation:
        """The optimum of trailing returns."""
        from alphaswarm_rl.statistics.allocations import TrailingWeights

        aversion = self.config.risk_aversion
        return TrailingWeights(f"policy {self.rl_alias!r}", self.config.lookback, "utility", aversion)

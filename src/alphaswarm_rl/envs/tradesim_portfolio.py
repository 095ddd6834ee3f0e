"""TradeMaster's portfolio management."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from alphaswarm_rl.core.types import JsonObject
from alphaswarm_rl.envs.trading import TradingComponent, TradingConfig, ref, stacked


class TradeSimPortfolio(TradingComponent):
    """Target weights by softmax, cash first, seen through the last `time_steps` bars; rewarded by the log return.

    TradeMaster's portfolio task with the exact cost of rebalancing, charged on what is traded in assets alone.
    """

    rl_alias = "tradesim_portfolio"
    parameters_of: ClassVar[dict[str, tuple[str, ...]]] = {"observation": ("time_steps",), "action": ("bound",)}

    class Config(TradingConfig):
        """Parameters of portfolio management."""

        time_steps: int = Field(10, ge=1, description="Bars that are seen.")
        bound: float = Field(5.0, gt=0, description="Largest score of an asset; e**(2 * bound) bounds their ratio.")

    def defaults(self) -> JsonObject:
        """The last bars and the weights; softmax; log return."""
        return {
            "action": ref("softmax_weights", bound=self.config.bound),
            "observation": stacked(
                ref("lookback_stack", lookback=self.config.time_steps, price_returns=True), ref("portfolio_state")
            ),
            "reward": ref("log_return"),
            "terminations": [],
        }

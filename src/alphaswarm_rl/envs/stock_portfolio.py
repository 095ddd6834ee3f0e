"""FinRL's portfolio allocation."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from alphaswarm_rl.core.types import JsonObject
from alphaswarm_rl.envs.trading import TradingComponent, TradingConfig, ref, stacked


class StockPortfolio(TradingComponent):
    """Target weights for every stock, seen through their covariance and indicators; the rest is cash.

    FinRL's portfolio allocation with what it leaves out: costs are paid, weights drift with prices, a softmax of
    unbounded scores can concentrate, and the reward is the log return instead of the account's level. Each covariance
    is shown once: the matrix is symmetric.
    """

    rl_alias = "stock_portfolio"
    rl_short_names = ("StockPortfolioEnv", "FinRLPortfolioCovEnv")
    parameters_of: ClassVar[dict[str, tuple[str, ...]]] = {"observation": ("lookback",)}

    class Config(TradingConfig):
        """Parameters of portfolio allocation."""

        initial_cash: float = Field(1_000_000.0, gt=0, description="Money that an episode starts with.")
        lookback: int = Field(60, ge=2, description="Bars of the covariance.")

    def defaults(self) -> JsonObject:
        """Indicators, covariance and weights; softmax; log return."""
        return {
            "action": ref("softmax_weights"),
            "observation": stacked(
                ref("technical_indicators"),
                ref("covariance", lookback=self.config.lookback, triangle=True),
                ref("portfolio_state"),
            ),
            "reward": ref("log_return"),
            "terminations": [],
        }

"""TradeMaster's portfolio management."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from alphaswarm_rl.envs.trading import TradingComponent, TradingConfig


class TradeSimPortfolio(TradingComponent):
    """Target weights by softmax, cash first, seen through the last `time_steps` bars; rewarded by the log return.

    TradeMaster's portfolio task with the exact cost of rebalancing, charged on what is traded in assets alone.
    """

    rl_alias = "tradesim_portfolio"
    parameters_of: ClassVar[dict[str, tuple[str, ...]]] = {
        "time_steps": ("observation",),
        "bound": ("action",),
    }

    class Config(TradingConfig):
        """Parameters of portfolio management."""

        time_steps: int = Field(10, ge=1, description="Bars that are seen.")
        bound: float = Field(5.0, gt=0, description="Largest score of an asset; e**(2 * bound) bounds their ratio.")

    def defaults(self) -> dict[str, Any]:
        """The last bars and the weights; softmax; log return."""
        return {
            "action": {"class": "softmax_weights", "kwargs": {"bound": self.config.bound}},
            "observation": {
                "class": "stacked",
                "kwargs": {
                    "parts": [
                        {
                            "class": "lookback_stack",
                            "kwargs": {"lookback": self.config.time_steps, "price_returns": True},
                        },
                        {"class": "portfolio_state"},
                    ]
                },
            },
            "reward": {"class": "log_return"},
            "terminations": [],
        }

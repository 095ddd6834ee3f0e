"""FinRL's stock trading with a stop-loss."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from alphaswarm_rl.core.types import JsonObject
from alphaswarm_rl.envs.trading import TradingComponent, TradingConfig, money_orders, ref


class StopLossTrading(TradingComponent):
    """Orders in money for every stock; what falls far below its average buy price is sold by rule.

    FinRL's stop-loss environment. The average is weighted by shares, and the rule is decided at a close and filled at
    the next price, as everything else is. Stops inside the bar are the action `bracket`.
    """

    rl_alias = "stop_loss"
    rl_short_names = ("StockTradingEnvStopLoss",)
    parameters_of: ClassVar[dict[str, tuple[str, ...]]] = {
        "action": ("hmax", "whole", "stop"),
        "reward": ("stop", "profit_loss_ratio"),
    }

    class Config(TradingConfig):
        """Parameters of trading with a stop-loss."""

        initial_cash: float = Field(1_000_000.0, gt=0, description="Money that an episode starts with.")
        hmax: float = Field(10_000.0, gt=0, description="Largest order per stock and step, in money.")
        whole: bool = Field(True, description="Whether only whole shares trade.")
        stop: float = Field(
            0.9, gt=0, lt=1, description="Close over average buy price at or below which a stock is sold."
        )
        profit_loss_ratio: float = Field(
            2.0, gt=0, description="Least profit that is wanted of a sale, in multiples of the loss that stops."
        )

    def defaults(self) -> JsonObject:
        """Cash, prices, holdings and indicators; money with stops; value less penalties."""
        config = self.config
        return {
            **money_orders(),
            "action": ref("stop_loss_shares", hmax=config.hmax, unit="money", whole=config.whole, stop=config.stop),
            "reward": ref("stop_loss", stop=config.stop, profit_loss_ratio=config.profit_loss_ratio),
        }

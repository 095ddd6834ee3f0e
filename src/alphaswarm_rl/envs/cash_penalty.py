"""FinRL's stock trading with a penalty for too little cash."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from alphaswarm_rl.core.types import JsonObject
from alphaswarm_rl.envs.trading import TradingComponent, TradingConfig, money_orders, ref


class CashPenaltyTrading(TradingComponent):
    """Orders in money for every stock; a part of the account's value should stay in cash.

    FinRL's cash-penalty environment. Where cash falls short, buys are cut instead of ending the episode, and every
    fill pays its costs.
    """

    rl_alias = "cash_penalty"
    rl_short_names = ("StockTradingEnvCashpenalty",)
    parameters_of: ClassVar[dict[str, tuple[str, ...]]] = {"action": ("hmax", "whole"), "reward": ("cash_fraction",)}

    class Config(TradingConfig):
        """Parameters of trading with a cash penalty."""

        initial_cash: float = Field(1_000_000.0, gt=0, description="Money that an episode starts with.")
        hmax: float = Field(10_000.0, gt=0, description="Largest order per stock and step, in money.")
        whole: bool = Field(True, description="Whether only whole shares trade.")
        cash_fraction: float = Field(0.1, ge=0, lt=1, description="Part of the value below which cash is penalised.")

    def defaults(self) -> JsonObject:
        """Cash, prices, holdings and indicators; money; value less the missing cash."""
        config = self.config
        return {
            **money_orders(),
            "action": ref("integer_shares", hmax=config.hmax, unit="money", whole=config.whole),
            "reward": ref("cash_penalty", cash_fraction=config.cash_fraction),
        }

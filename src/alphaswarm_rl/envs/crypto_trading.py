"""FinRL's crypto trading."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from alphaswarm_rl.core.types import JsonObject
from alphaswarm_rl.envs.trading import TradingComponent, TradingConfig, ref, stacked


class CryptoTrading(TradingComponent):
    """Orders for up to `hmax` money of every coin, in fractions of coins, seen through the last few bars.

    An order is counted in money, so that a coin of 60,000 and one of 0.1 are traded alike. Bars may come around the
    clock: what a year is follows from the panel.
    """

    rl_alias = "crypto_trading"
    rl_short_names = ("CryptoEnv", "FinRLCryptoEnv")
    parameters_of: ClassVar[dict[str, tuple[str, ...]]] = {
        "action": ("hmax",),
        "observation": ("lookback",),
        "reward": ("reward_scaling",),
    }

    class Config(TradingConfig):
        """Parameters of crypto trading."""

        hmax: float = Field(10_000.0, gt=0, description="Largest order per coin and step, in money.")
        lookback: int = Field(5, ge=1, description="Bars that are seen.")
        reward_scaling: float = Field(2.0**-16, gt=0, description="Reward per unit of money earned.")

    def defaults(self) -> JsonObject:
        """Cash, holdings and the last bars; money; money earned."""
        return {
            "action": ref("integer_shares", hmax=self.config.hmax, unit="money", whole=False),
            "observation": stacked(
                ref("portfolio_state"), ref("lookback_stack", lookback=self.config.lookback, price_returns=True)
            ),
            "reward": ref("pnl", scale=self.config.reward_scaling),
            "terminations": [],
        }

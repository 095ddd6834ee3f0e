"""TradeMaster's algorithmic trading of one asset."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from alphaswarm_rl.core.types import JsonObject
from alphaswarm_rl.envs.trading import MarginAccount, TradingComponent, TradingConfig, ref, stacked


class TradeSimAlgoTrading(TradingComponent):
    """Buys, sells or holds up to `max_volume` lots of one asset, long or short; its reward looks ahead in training.

    TradeMaster's task (DeepScalper) with signed accounting: opening a short costs its costs and nothing else, and
    needs margin. The reward's look ahead is left out of evaluations, which report the account's return.
    """

    rl_alias = "tradesim_algotrading"
    parameters_of: ClassVar[dict[str, tuple[str, ...]]] = {
        "action": ("asset", "max_volume", "lot"),
        "observation": ("backward_num_day",),
        "reward": ("forward_num_day", "future_weights"),
    }

    class Config(TradingConfig):
        """Parameters of algorithmic trading."""

        margin: MarginAccount | None = Field(
            default_factory=MarginAccount, description="What may be owed; null: no shorts."
        )
        asset: str | None = Field(None, description="The asset; null: the only one.")
        max_volume: int = Field(1, ge=1, description="Largest order, in lots.")
        lot: float = Field(1.0, gt=0, description="Units in a lot.")
        backward_num_day: int = Field(5, ge=1, description="Bars that are seen.")
        forward_num_day: int = Field(5, ge=1, description="Bars that the training reward looks ahead.")
        future_weights: float = Field(0.2, ge=0, description="Weight of that look ahead.")

    def defaults(self) -> JsonObject:
        """The last bars, cash and holding; orders; hindsight."""
        config = self.config
        return {
            "action": ref(
                "masked_discrete",
                asset=config.asset,
                mode="orders",
                max_units=config.max_volume,
                lot=config.lot,
                short=config.margin is not None and config.margin.short,
            ),
            "observation": stacked(
                ref("lookback_stack", lookback=config.backward_num_day, price_returns=True), ref("portfolio_state")
            ),
            "reward": ref("hindsight", weight=config.future_weights, horizon=config.forward_num_day),
            "terminations": [],
        }

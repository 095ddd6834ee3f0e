"""FinRL's stock trading."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from alphaswarm_rl.core.types import JsonObject
from alphaswarm_rl.envs.trading import TradingComponent, TradingConfig, ref, stacked

#: FinRL's arithmetic: filled at the close that was seen, 0.1 % on both sides and no spread, the whole window.
_FINRL: dict[str, Any] = {
    "fill": "same_close",
    "costs": {"commission_rate": 0.001, "half_spread_bps": 0.0, "borrow_rate": 0.0},
    "episode_bars": None,
}


class StockTrading(TradingComponent):
    """Orders for up to `hmax` shares of every stock at once, as in FinRL: sells first, then the largest buys."""

    rl_alias = "stock_trading"
    #: 2: `compat: finrl` gates no first decision, as FinRL does not.
    rl_version = 2
    rl_short_names = ("FinRLStockTradingEnv", "StockTradingEnv")
    parameters_of: ClassVar[dict[str, tuple[str, ...]]] = {"action": ("hmax",), "reward": ("reward_scaling",)}

    class Config(TradingConfig):
        """Parameters of stock trading."""

        initial_cash: float = Field(1_000_000.0, gt=0, description="Money that an episode starts with.")
        hmax: float = Field(100.0, gt=0, description="Largest order per stock and step, in shares.")
        reward_scaling: float = Field(1e-4, gt=0, description="Reward per unit of money earned.")
        turbulence_threshold: float | None = Field(
            None, description="Turbulence from which on everything is sold and nothing bought; null: no gate."
        )
        compat: Literal["finrl"] | None = Field(
            None,
            description="finrl: FinRL's arithmetic and observation (fills at the close that was seen, 0.1 % commission "
            "and no spread, raw numbers, no gate at an episode's first decision), which makes the run optimistic.",
        )

        @model_validator(mode="before")
        @classmethod
        def _as_finrl(cls, data: object) -> object:
            # Written out, so that a spec's hash holds the numbers that are used.
            if not isinstance(data, dict) or data.get("compat") != "finrl":
                return data
            if data.get("fill", _FINRL["fill"]) != _FINRL["fill"]:
                raise ValueError(f"compat: finrl fills at the close that was seen, not {data['fill']!r}; leave one out")
            costs = data.get("costs") or {}
            merged = {**_FINRL["costs"], **costs} if isinstance(costs, dict) else costs
            return {**_FINRL, **data, "costs": merged}

    def gates_first_bar(self) -> bool:
        """FinRL knows no turbulence before the first step of an episode."""
        return bool(self.config.compat != "finrl")

    def defaults(self) -> JsonObject:
        """Cash, prices, holdings and indicators; shares; money earned."""
        raw = self.config.compat == "finrl"
        account = ref("portfolio_state", pieces=["cash", "prices", "holdings"], raw=raw)
        return {
            "action": ref("integer_shares", hmax=self.config.hmax),
            "observation": stacked(account, ref("technical_indicators", by_indicator=raw)),
            "reward": ref("pnl", scale=self.config.reward_scaling),
            "terminations": [],
        }

"""gym-anytrading's two environments, natively batched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from alphaswarm_rl.core import slots
from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.kinds import EnvComponent

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

    from alphaswarm_rl.core.contracts import EnvRequest, Window
    from alphaswarm_rl.envs.anytrading import Bars

#: The parameters that mean something in one task alone.
_OWN = {"forex": ("trade_fee", "unit_side"), "stocks": ("trade_fee_bid_percent", "trade_fee_ask_percent")}


class AnyTrading(EnvComponent):
    """forex-v0 or stocks-v0 of gym-anytrading, step for step, natively batched and exactly resumable."""

    rl_alias = "anytrading"
    rl_category = "trading"
    rl_tags = ("discrete", "native", "exact-resume")
    takes = frozenset({slots.WINDOW})

    class Config(ComponentConfig):
        """Parameters of gym-anytrading's environments; the defaults are the library's."""

        task: Literal["forex", "stocks"] = Field(description="forex: EURUSD by the hour. stocks: GOOGL by the day.")
        window_size: int | None = Field(
            None, ge=1, description="Bars in one observation; null is 24 for forex and 30 for stocks."
        )
        trade_fee: float = Field(0.0003, ge=0, description="forex: what a trade costs, in units of price.")
        unit_side: Literal["left", "right"] = Field(
            "left", description="forex: the currency of total_profit: left of the pair (EUR) or right (USD)."
        )
        trade_fee_bid_percent: float = Field(
            0.01, ge=0, lt=1, description="stocks: the fraction of a sale that it costs (0.01 is 1 %)."
        )
        trade_fee_ask_percent: float = Field(
            0.005, ge=0, lt=1, description="stocks: the fraction of a purchase that it costs (0.005 is 0.5 %)."
        )

        @model_validator(mode="after")
        def _refuse_the_other_tasks(self) -> AnyTrading.Config:
            other = "stocks" if self.task == "forex" else "forex"
            for name in _OWN[other]:
                # A spec written out in full names every parameter, so that a default is no mistake.
                if getattr(self, name) != type(self).model_fields[name].default:
                    raise PydanticCustomError(
                        "anytrading_task",
                        "'{name}' is a parameter of {other}, and the task is {task}. Leave it out",
                        {"name": name, "other": other, "task": self.task},
                    )
            return self

    def flat_observations(self) -> bool:
        """It shows one row of numbers."""
        return True

    def build(self, request: EnvRequest) -> VectorEnv[Any, Any, Any]:
        """The batched environment."""
        from alphaswarm_rl.envs.batched_anytrading import BatchedAnyTrading, forex_account, stocks_account

        config = self.config
        if config.task == "forex":
            account = forex_account(config.trade_fee, config.unit_side)
        else:
            account = stocks_account(config.trade_fee_bid_percent, config.trade_fee_ask_percent)
        return BatchedAnyTrading(request, self._bars(request.window), account)

    def data_fingerprint(self, window: Window) -> str:
        """SHA-256 of the bars of that window and of those that its first observation shows."""
        return self._bars(window).fingerprint()

    def in_sample(self, evaluated: Window, trained: tuple[Window, ...]) -> bool:
        """Whether any bar of the evaluation is one of training or validation."""
        bars = self._bars(evaluated)
        return any(bars.overlaps(self._bars(window)) for window in trained)

    def _bars(self, window: Window) -> Bars:
        from alphaswarm_rl.envs.anytrading import bars

        size = self.config.window_size
        return bars(self.config.task, window, {} if size is None else {"window_size": size})

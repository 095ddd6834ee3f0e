"""A trading environment on a backtest engine, as specs name it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from alphaswarm_rl.core.errors import EnvError
from alphaswarm_rl.core.refs import ComponentRef, ref_to
from alphaswarm_rl.core.types import JsonObject
from alphaswarm_rl.envs.trading import TradingComponent, TradingConfig, ref, stacked

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

    from alphaswarm_rl.core.contracts import EnvRequest

    EngineRef = ComponentRef
else:
    EngineRef = ref_to("backtest_engine", bare=True)


class RLBacktest(TradingComponent):
    """Target weights for every asset, played by a backtest engine; whatever they leave is cash.

    Actions are weights, the observation is the account and the indicators, the reward the log return; a spec may put
    parts of its own in their place, as in every trading environment. On the engine `native` it is to the bit what the
    same parts are in any of the others.
    """

    on_device = False

    rl_alias = "rl_backtest"
    rl_short_names = ("RLBacktestEnv",)
    rl_tags = ("native", "exact-resume", "market")

    class Config(TradingConfig):
        """Parameters of environments on an engine."""

        engine: EngineRef = Field(
            default_factory=lambda: {"class": "native"}, validate_default=True, description="What plays the accounts."
        )

    parameters_of: ClassVar[dict[str, tuple[str, ...]]] = {}

    def defaults(self) -> JsonObject:
        """Indicators and account; weights; log return."""
        return {
            "action": ref("continuous_weights"),
            "observation": stacked(ref("technical_indicators"), ref("portfolio_state")),
            "reward": ref("log_return"),
            "terminations": [],
        }

    def build(self, request: EnvRequest) -> VectorEnv[Any, Any, Any]:
        """The environment; engines play in NumPy's arrays."""
        from alphaswarm_rl.execution.backtest_env import backtest_env

        if request.backend == "torch":
            raise EnvError(
                f"env {self.rl_alias!r} on {request.device}",
                "backtest engines play on the CPU",
                "Leave the backend and the device out.",
            )
        return backtest_env(request, self.plan(request), self.config.engine.build())

"""Which engine plays a policy, and when its weights become units: what a backtest is asked for beside its policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

from alphaswarm_rl.core.errors import EnvError
from alphaswarm_rl.core.kinds import BaseBacktestEngine, EnvComponent
from alphaswarm_rl.core.refs import ComponentRef, reference
from alphaswarm_rl.core.types import JsonObject
from alphaswarm_rl.envs.trading import TradingComponent
from alphaswarm_rl.execution.stepped_engine import SteppedEngine

Sizing = Literal["at_fill", "at_decision"]


@dataclass(frozen=True)
class EngineChoice:
    """An engine in place of an environment's own decision step.

    Attributes:
        engine: Alias of the engine.
        sizing: When weights become units; None: as the environment has it.
    """

    engine: str = "native"
    sizing: Sizing | None = None

    def build(self) -> BaseBacktestEngine:
        """The engine."""
        engine: BaseBacktestEngine = reference({"class": self.engine}, "backtest_engine").build()
        return engine

    def env(self, ref: ComponentRef) -> EnvComponent:
        """The environment as it is backtested: one that trades, sized as was chosen."""
        component: EnvComponent = ref.build()
        if not isinstance(component, TradingComponent):
            raise EnvError(
                f"a backtest of env {component.rl_alias!r}",
                "it trades nothing that an engine could play",
                "Choose a policy of a trading environment, such as stock_portfolio.",
            )
        if self.sizing not in (None, component.config.sizing):
            kwargs: JsonObject = {**ref.kwargs, "sizing": self.sizing}
            component = cast(TradingComponent, reference({"class": ref.name, "kwargs": kwargs}, "env").build())
        engine = self.build()
        if isinstance(engine, SteppedEngine):
            engine.check_orders(component.config.fill, component.config.sizing)
        return component

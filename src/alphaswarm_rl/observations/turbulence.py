"""How unusual the market is."""

from __future__ import annotations

from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.observations.market_feature import MarketFeature


class Turbulence(MarketFeature):
    """The market's turbulence, as the data pipeline made it: how unusual the bar's returns are.

    It is 0 until it is defined. No scaler of the pipeline changes it, so it has a `scale` of its own.
    """

    rl_alias = "turbulence"
    rl_category = "market"
    rl_short_names = ("TurbulenceBuilder",)

    class Config(ComponentConfig):
        """Parameters of the turbulence."""

        name: str = Field(
            "turbulence",
            pattern=r"^turbulence(_[1-9]\d*)?$",
            description="Which market feature: turbulence, or turbulence_N where the pipeline looks back N bars.",
        )
        scale: float = Field(0.01, gt=0, description="What it is multiplied by.")

    def feature(self) -> str:
        """The one of the parameters."""
        return str(self.config.name)

"""How much movement the options market expects."""

from __future__ import annotations

from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.observations.market_feature import MarketFeature


class Vix(MarketFeature):
    """The VIX as it was known at the bar's close, as the data pipeline joined it.

    It is 0 until there is one. No scaler of the pipeline changes it, so it has a `scale` of its own.
    """

    rl_alias = "vix"
    rl_category = "market"
    rl_short_names = ("VIXBuilder",)

    class Config(ComponentConfig):
        """Parameters of the VIX."""

        scale: float = Field(0.01, gt=0, description="What it is multiplied by; the VIX is in percent.")

    def feature(self) -> str:
        """`vix`."""
        return "vix"

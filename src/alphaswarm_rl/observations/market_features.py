"""Observations of one number about the whole market: how unusual it is, how much movement it expects."""

from __future__ import annotations

import abc

from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.core.kinds import ObservationBuilder
from alphaswarm_rl.core.types import BackendArray, NamedArrays
from alphaswarm_rl.core.view import Panel, View


class MarketFeature(ObservationBuilder):
    """One market feature of the panel times `scale`, the same for every account on that bar; 0 until it is known.

    No scaler of the data pipeline changes it, so it has a `scale` of its own.
    """

    rl_category = "market"

    @abc.abstractmethod
    def feature(self) -> str:
        """Its name."""

    def names(self, panel: Panel) -> tuple[str, ...]:
        """The feature's own."""
        self._place(panel)
        return (self.feature(),)

    def prepare(self, panel: Panel) -> NamedArrays:
        """Its value at every bar."""
        import numpy as np

        values = panel.market_features[:, [self._place(panel)]] * self.config.scale
        return {"table": values.astype(np.float32)}

    def prepared_from(self) -> int:
        """The bar alone."""
        return 0

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes the value of each environment's bar."""
        view.take(state["table"], out)

    def _place(self, panel: Panel) -> int:
        name = self.feature()
        if name not in panel.market_feature_names:
            raise DataError(
                f"market feature {name!r}",
                f"the observation {self.rl_alias!r} shows it and the panel has none",
                f"Add market_features: [{name}] to the data pipeline, or leave the observation out.",
            )
        return int(panel.market_feature_names.index(name))


class Turbulence(MarketFeature):
    """The market's turbulence, as the data pipeline made it: how unusual the bar's returns are.

    It is 0 until it is defined. No scaler of the pipeline changes it, so it has a `scale` of its own.
    """

    rl_alias = "turbulence"
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


class Vix(MarketFeature):
    """The VIX as it was known at the bar's close, as the data pipeline joined it.

    It is 0 until there is one. No scaler of the pipeline changes it, so it has a `scale` of its own.
    """

    rl_alias = "vix"
    rl_short_names = ("VIXBuilder",)

    class Config(ComponentConfig):
        """Parameters of the VIX."""

        scale: float = Field(0.01, gt=0, description="What it is multiplied by; the VIX is in percent.")

    def feature(self) -> str:
        """`vix`."""
        return "vix"

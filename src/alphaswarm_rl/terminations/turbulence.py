"""The end when the market is in turmoil."""

from __future__ import annotations

from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.core.kinds import Termination
from alphaswarm_rl.core.types import BackendArray, NamedArrays
from alphaswarm_rl.core.view import Panel, View


class Turbulence(Termination):
    """Truncates an episode when the market feature `turbulence` is `threshold` or more at the close.

    The feature is taken as the data pipeline gives it; no scaler changes market features.
    """

    rl_alias = "turbulence"
    rl_category = "market"

    class Config(ComponentConfig):
        """Parameters of the turbulence limit."""

        threshold: float = Field(200.0, description="Turbulence from which on the episode is over.")

    def prepare(self, panel: Panel) -> NamedArrays:
        """The market's turbulence by bar."""
        import numpy as np

        if "turbulence" not in panel.market_feature_names:
            raise DataError(
                "market feature 'turbulence'",
                f"the termination {self.rl_alias!r} needs it and the panel has none",
                "Add market_features: [turbulence] to the data pipeline, or leave the termination out.",
            )
        index = panel.market_feature_names.index("turbulence")
        return {"turbulence": np.ascontiguousarray(panel.market_features[:, index])}

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes where the threshold is reached."""
        out[...] = state["turbulence"][view.bar] >= self.config.threshold

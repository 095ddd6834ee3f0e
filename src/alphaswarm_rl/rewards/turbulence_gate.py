"""The cost of being there when the market is in turmoil."""

from __future__ import annotations

from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.core.kinds import RewardTerm
from alphaswarm_rl.core.types import BackendArray, NamedArrays
from alphaswarm_rl.core.view import Panel, View


class TurbulenceGate(RewardTerm):
    """Minus `penalty` where the market's turbulence at the bar is at `threshold` or above."""

    rl_alias = "turbulence_gate"
    rl_category = "risk"

    class Config(ComponentConfig):
        """Parameters of the turbulence gate."""

        threshold: float = Field(140.0, description="Turbulence from which on the penalty is due.")
        penalty: float = Field(1.0, ge=0, description="Reward lost on such a bar.")

    def prepare(self, panel: Panel) -> NamedArrays:
        """The turbulence by bar, (T,)."""
        import numpy as np

        names = panel.market_feature_names
        if "turbulence" not in names:
            raise DataError(
                "market feature 'turbulence'",
                "the reward 'turbulence_gate' needs it and the panel has none",
                "Add market_features: [turbulence] to the data pipeline, or leave that reward out.",
            )
        return {"turbulence": np.array(panel.market_features[:, names.index("turbulence")], np.float64)}

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes the penalty."""
        stormy = state["turbulence"][view.bar] >= self.config.threshold
        out[...] = view.xp.where(stormy, -self.config.penalty, 0.0)

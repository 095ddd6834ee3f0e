"""What observations of one number about the whole market share."""

from __future__ import annotations

import abc

from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.core.kinds import ObservationBuilder
from alphaswarm_rl.core.types import BackendArray, NamedArrays
from alphaswarm_rl.core.view import Panel, View


class MarketFeature(ObservationBuilder):
    """One market feature of the panel times `scale`, the same for every account on that bar."""

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

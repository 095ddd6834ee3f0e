"""What companies report."""

from __future__ import annotations

from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.kinds import ObservationBuilder
from alphaswarm_rl.core.types import BackendArray, NamedArrays
from alphaswarm_rl.core.view import Panel, View
from alphaswarm_rl.observations.features import feature_indices


class Fundamentals(ObservationBuilder):
    """The newest fundamentals of every asset that were available at the bar's close.

    They are features of the panel, joined by the data pipeline at the moment from which they could be known. Each is 0
    until the asset's first report; after that the last one stands until the next.
    """

    rl_alias = "fundamentals"
    rl_category = "market"
    rl_short_names = ("FundamentalBuilder",)

    class Config(ComponentConfig):
        """Parameters of the fundamentals."""

        fields: list[str] = Field(
            default_factory=lambda: ["pe", "pb", "debt_to_equity", "roa", "roe", "ebitda_margin"],
            min_length=1,
            description="Which of them, in this order, for one asset after another.",
        )

    def names(self, panel: Panel) -> tuple[str, ...]:
        """`pe:KO`, ..."""
        self._indices(panel)
        return tuple(f"{name}:{asset}" for asset in panel.assets for name in self.config.fields)

    def prepare(self, panel: Panel) -> NamedArrays:
        """Which columns of the market's features they are."""
        import numpy as np

        width, indices = len(panel.feature_names), self._indices(panel)
        places = [asset * width + index for asset in range(panel.num_assets) for index in indices]
        return {"columns": np.array(places, np.int64)}

    def prepared_from(self) -> int:
        """The bar alone."""
        return 0

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes the fundamentals of each environment's bar."""
        view.take_columns(view.market.features, state["columns"], out)

    def _indices(self, panel: Panel) -> list[int]:
        remedy = "It comes from the data pipeline's parameters fundamentals and fundamental_fields."
        return feature_indices(panel, self.config.fields, shown_by=self.rl_alias, remedy=remedy)

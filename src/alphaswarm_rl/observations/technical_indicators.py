"""The panel's features."""

from __future__ import annotations

from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.core.kinds import ObservationBuilder
from alphaswarm_rl.core.types import BackendArray, NamedArrays
from alphaswarm_rl.core.view import Panel, View
from alphaswarm_rl.observations.features import feature_indices


class TechnicalIndicators(ObservationBuilder):
    """The panel's features of every asset at the current bar, as the data pipeline made and scaled them."""

    rl_alias = "technical_indicators"
    rl_category = "market"

    class Config(ComponentConfig):
        """Parameters of the indicators' observation."""

        features: list[str] | None = Field(None, description="Which features, in this order; null: all.")
        by_indicator: bool = Field(
            False,
            description="Whether each indicator's assets stand together, as in FinRL, or each asset's indicators.",
        )

    def names(self, panel: Panel) -> tuple[str, ...]:
        """A name per number, feature and asset, such as `macd:KO`."""
        places = self._places(panel)
        flat = [f"{feature}:{asset}" for asset in panel.assets for feature in panel.feature_names]
        return tuple(flat[place] for place in places)

    def prepare(self, panel: Panel) -> NamedArrays:
        """The columns, unless they are all of them in their order."""
        import numpy as np

        places = self._places(panel)
        if places == list(range(panel.num_assets * len(panel.feature_names))):
            return {}
        return {"columns": np.array(places, np.int64)}

    def prepared_from(self) -> int:
        """The bar alone."""
        return 0

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes the features of each environment's bar."""
        if "columns" in state:
            view.take_columns(view.market.features, state["columns"], out)
        else:
            view.take(view.market.features, out)

    def _places(self, panel: Panel) -> list[int]:
        chosen = panel.feature_names if self.config.features is None else self.config.features
        if not chosen:
            raise DataError(
                "the panel's features",
                f"the observation {self.rl_alias!r} shows them and there are none",
                "Add some: in a spec by the data pipeline's features: [macd, rsi_30], in Python by "
                "data_pipelines.features.add_indicators(panel, ['macd', 'rsi_30']); or choose another observation, "
                "such as {class: portfolio_state}.",
            )
        index = feature_indices(panel, chosen, shown_by=self.rl_alias, remedy="Add it to the data pipeline's features.")
        assets, width = range(panel.num_assets), len(panel.feature_names)
        if self.config.by_indicator:
            return [asset * width + feature for feature in index for asset in assets]
        return [asset * width + feature for asset in assets for feature in index]

"""The panel's features over the last bars."""

from __future__ import annotations

from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.core.kinds import ObservationBuilder
from alphaswarm_rl.core.types import BackendArray, NamedArrays
from alphaswarm_rl.core.view import Panel, View
from alphaswarm_rl.observations.features import feature_indices


class LookbackStack(ObservationBuilder):
    """The features of every asset over the last `lookback` bars, the oldest bar first.

    Ordered by bar, then asset, then feature, so that it reshapes to (lookback, assets, features). With `price_returns`
    the bar's simple return of the close is the last feature; it is 0 where an asset has no two prices yet.
    """

    rl_alias = "lookback_stack"
    rl_category = "market"
    rl_short_names = ("LookbackStackBuilder",)

    class Config(ComponentConfig):
        """Parameters of the stack of bars."""

        lookback: int = Field(5, ge=1, description="How many bars, the current one included.")
        features: list[str] | None = Field(None, description="Which features, in this order; null: all.")
        price_returns: bool = Field(False, description="Whether each bar's return is shown too.")

    def names(self, panel: Panel) -> tuple[str, ...]:
        """A name per number: feature, asset and how many bars ago, from `macd:KO:t-4` to `macd:KO:t-0`."""
        shown = [panel.feature_names[place] for place in self._places(panel)]
        shown += ["return"] if self.config.price_returns else []
        ages = reversed(range(self.config.lookback))
        return tuple(f"{name}:{asset}:t-{age}" for age in ages for asset in panel.assets for name in shown)

    def prepare(self, panel: Panel) -> NamedArrays:
        """One row per bar, unless the market's own rows are what is shown."""
        import numpy as np

        places = self._places(panel)
        if places == list(range(len(panel.feature_names))) and not self.config.price_returns:
            return {}
        table = panel.features[:, :, places]
        if self.config.price_returns:
            from alphaswarm_rl.market.covariance import bar_returns

            change = np.nan_to_num(bar_returns(panel), nan=0.0)
            table = np.concatenate([table, change[:, :, None].astype(panel.dtype)], axis=2)
        return {"table": table.reshape(panel.num_bars, -1)}

    def prepared_from(self) -> int:
        """A bar alone, or with its return the bar before it too."""
        return int(self.config.price_returns)

    def warmup_bars(self) -> int:
        """So many that the first decision has them all; the oldest bar's return needs the bar before it."""
        return int(self.config.lookback) - 1 + int(self.config.price_returns)

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes the bars up to each environment's."""
        table = state.get("table", view.market.features)
        view.take_window(table, self.config.lookback, out)

    def _places(self, panel: Panel) -> list[int]:
        chosen = panel.feature_names if self.config.features is None else self.config.features
        if not chosen and not self.config.price_returns:
            raise DataError(
                "the panel's features",
                f"the observation {self.rl_alias!r} shows them and there are none",
                "Add features to the data pipeline, or set price_returns: true.",
            )
        return feature_indices(panel, chosen, shown_by=self.rl_alias, remedy="Add it to the data pipeline's features.")

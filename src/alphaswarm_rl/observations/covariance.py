"""How the assets move together."""

from __future__ import annotations

from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.kinds import ObservationBuilder
from alphaswarm_rl.core.types import Array, BackendArray, NamedArrays
from alphaswarm_rl.core.view import Panel, View

#: Bars whose matrices are held in double precision at a time.
_CHUNK = 4096


class Covariance(ObservationBuilder):
    """The sample covariance of the assets' simple returns over the last `lookback` bars.

    Row after row of the matrix, or its upper triangle with the diagonal. An asset that does not have all those returns
    has 0 in its row and column. The matrices of all bars are kept in single precision, 4 bytes times bars times values:
    7 MB for 30 assets and 2,000 bars, 360 MB for 100,000 bars.
    """

    rl_alias = "covariance"
    rl_category = "market"
    rl_short_names = ("CovarianceBuilder",)

    class Config(ComponentConfig):
        """Parameters of the covariance."""

        lookback: int = Field(60, ge=2, description="How many returns it is estimated from.")
        triangle: bool = Field(False, description="Whether only the upper triangle with the diagonal is shown.")
        annualise: bool = Field(
            True, description="Whether it is multiplied by the bars in a year, which makes a daily one of order 0.1."
        )
        scale: float = Field(1.0, gt=0, description="What it is multiplied by besides.")

    def names(self, panel: Panel) -> tuple[str, ...]:
        """`cov:KO:PEP`, ..."""
        rows, columns = self._places(panel)
        return tuple(f"cov:{panel.assets[i]}:{panel.assets[j]}" for i, j in zip(rows, columns, strict=True))

    def prepare(self, panel: Panel) -> NamedArrays:
        """The values at every bar."""
        import numpy as np

        from alphaswarm_rl.market.covariance import covariance

        rows, columns = self._places(panel)
        factor = self.config.scale * (panel.periods_per_year if self.config.annualise else 1.0)
        table = np.empty((panel.num_bars, len(rows)), np.float32)
        for first in range(0, panel.num_bars, _CHUNK):
            bars = np.arange(first, min(first + _CHUNK, panel.num_bars))
            table[bars] = covariance(panel, self.config.lookback, bars)[:, rows, columns] * factor
        return {"table": table}

    def prepared_from(self) -> int:
        """As many bars as returns."""
        return int(self.config.lookback)

    def warmup_bars(self) -> int:
        """As many bars as returns, since a return spans two bars."""
        return int(self.config.lookback)

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes the matrix of each environment's bar."""
        view.take(state["table"], out)

    def _places(self, panel: Panel) -> tuple[Array, Array]:
        import numpy as np

        if self.config.triangle:
            return np.triu_indices(panel.num_assets)
        return np.divmod(np.arange(panel.num_assets**2), panel.num_assets)

"""Spread, pressure and activity."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.core.kinds import ObservationBuilder
from alphaswarm_rl.core.types import Array, BackendArray, NamedArrays
from alphaswarm_rl.core.view import Panel, View


class Microstructure(ObservationBuilder):
    """Spread, order-flow imbalance and activity of every asset; from bars alone the first two are proxies.

    Bars do not show the order book. From them come, for one asset after another:

    - `range_bps`: high minus low over the close, in basis points times `scale`. It grows with spread and volatility
      alike, and is no estimate of the spread.
    - `close_location`: where the close lies between low (-1) and high (1), a proxy of which side pressed; 0 where both
      are the same.
    - `vol_clock`: volume over its mean in the last `lookback` bars minus 1, gaps left out; 0 at a gap and where nothing
      was traded at all.

    A panel with the features `bid` and `ask` has `spread_bps` instead of the first, ask minus bid over their middle;
    one with `bid_size` and `ask_size` has `imbalance` instead of the second, their difference over their sum. Those
    features must be the quotes themselves, so the pipeline must not scale them. Both are 0 until there are quotes.
    """

    rl_alias = "microstructure"
    rl_category = "market"
    rl_short_names = ("MicrostructureBuilder",)

    needs: ClassVar[tuple[str, ...]] = ("high", "low", "volume")

    class Config(ComponentConfig):
        """Parameters of the microstructure."""

        lookback: int = Field(20, ge=1, description="Bars of the mean volume, the current one included.")
        scale: float = Field(0.01, gt=0, description="What basis points are multiplied by.")

    def names(self, panel: Panel) -> tuple[str, ...]:
        """`range_bps:KO`, `close_location:KO`, `vol_clock:KO`, ..., or the quotes' names."""
        first = "range_bps" if _quotes(panel, "bid", "ask") is None else "spread_bps"
        second = "close_location" if _quotes(panel, "bid_size", "ask_size") is None else "imbalance"
        return tuple(f"{name}:{asset}" for asset in panel.assets for name in (first, second, "vol_clock"))

    def prepare(self, panel: Panel) -> NamedArrays:
        """The values at every bar."""
        import numpy as np

        high, low, close = panel.high, panel.low, panel.close
        assert high is not None
        assert low is not None
        quotes, sizes = _quotes(panel, "bid", "ask"), _quotes(panel, "bid_size", "ask_size")
        if quotes is None:
            spread = _ratio(high - low, close)
        else:
            self._refuse_scaled(panel, quotes)
            bid, ask = quotes
            spread = _ratio(ask - bid, (ask + bid) / 2.0)
        if sizes is None:
            pressure = _ratio((close - low) - (high - close), high - low)
        else:
            pressure = _ratio(sizes[0] - sizes[1], sizes[0] + sizes[1])
        columns = [spread * 1e4 * self.config.scale, pressure, self._activity(panel)]
        return {"table": np.stack(columns, axis=2).reshape(panel.num_bars, -1).astype(np.float32)}

    def prepared_from(self) -> int:
        """Those of its mean."""
        return int(self.config.lookback) - 1

    def warmup_bars(self) -> int:
        """So many that the first decision has a whole mean."""
        return int(self.config.lookback) - 1

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes the values of each environment's bar."""
        view.take(state["table"], out)

    def _activity(self, panel: Panel) -> Array:
        import numpy as np

        assert panel.volume is not None
        present = panel.tradable
        volume = np.where(present, panel.volume, 0.0)
        total, count = volume.copy(), present.astype(np.int64)
        for lag in range(1, min(self.config.lookback, panel.num_bars)):
            total[lag:] += volume[:-lag]
            count[lag:] += present[:-lag]
        usual = total / np.maximum(count, 1)
        return np.where(present & (usual > 0), _ratio(volume, usual) - 1.0, 0.0)

    def _refuse_scaled(self, panel: Panel, quotes: tuple[Array, Array]) -> None:
        import numpy as np

        for name, values in zip(("bid", "ask"), quotes, strict=True):
            since = panel.feature_from[:, panel.feature_names.index(name)]
            known = np.arange(panel.num_bars)[:, None] >= since
            if (known & (values <= 0)).any():
                raise DataError(
                    f"feature {name!r}",
                    f"the observation {self.rl_alias!r} reads it as a price, and it is not positive everywhere",
                    "Give the quotes as they are, with scaler: none in the data pipeline.",
                )


def _quotes(panel: Panel, *names: str) -> tuple[Array, Array] | None:
    """Two features of the panel, (T, A) each; None unless it has both."""
    import numpy as np

    if not all(name in panel.feature_names for name in names):
        return None
    first, second = (panel.features[:, :, panel.feature_names.index(name)].astype(np.float64) for name in names)
    return first, second


def _ratio(over: Array, under: Array) -> Array:
    """One over the other; 0 where the other is not positive."""
    import numpy as np

    defined = under > 0
    return np.where(defined, over, 0.0) / np.where(defined, under, 1.0)

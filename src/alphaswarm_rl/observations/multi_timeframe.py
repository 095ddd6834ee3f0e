"""Bars of several sizes seen together."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.kinds import ObservationBuilder
from alphaswarm_rl.core.types import Array, BackendArray, NamedArrays
from alphaswarm_rl.core.view import Panel, View

#: The pieces of a coarser bar, in the order in which they are shown.
_COLUMNS = ("open", "high", "low", "close", "volume")


class MultiTimeframe(ObservationBuilder):
    """The last closed bars of coarser timeframes, as distances from the current close.

    Coarser bars are made from the panel's bars by the clock (UTC, weeks from Monday), and one is shown only when it is
    over: on one-minute bars, the 10:00 hour appears with the bar that ends at 11:00. Open, high, low and close are over
    the current close minus 1; volume is over the mean of the volumes shown minus 1. What the panel lacks is left out.

    Per timeframe: bar after bar, the oldest first, asset after asset, all values 0 where the asset has no such bar;
    then, for each asset, which part of those bars is real. Values of all bars are kept in single precision, 4 bytes
    times bars of the panel times values.
    """

    rl_alias = "multi_timeframe"
    rl_category = "market"

    class Config(ComponentConfig):
        """Parameters of the timeframes."""

        timeframes: list[Annotated[str, Field(pattern=r"^[1-9]\d*[smhdw]$")]] = Field(
            default_factory=lambda: ["1w"],
            min_length=1,
            description="Sizes of the coarser bars, such as 5m, 1h, 1d, 1w; each a multiple of the panel's bar.",
        )
        bars: int = Field(3, ge=1, description="How many closed bars of each timeframe.")
        warmup: int = Field(
            0, ge=0, description="Bars of the panel that go before the first decision, so that coarser ones are full."
        )

        @field_validator("timeframes")
        @classmethod
        def _each_once(cls, value: list[str]) -> list[str]:
            if len(set(value)) < len(value):
                raise ValueError("a timeframe is there twice: name each once")
            return value

    def names(self, panel: Panel) -> tuple[str, ...]:
        """`close:KO:1h-2`, ..., `close:KO:1h-0` for the newest, and `real:KO:1h`."""
        found: list[str] = []
        for timeframe in self.config.timeframes:
            for age in reversed(range(self.config.bars)):
                found += [f"{name}:{asset}:{timeframe}-{age}" for asset in panel.assets for name in _columns(panel)]
            found += [f"real:{asset}:{timeframe}" for asset in panel.assets]
        return tuple(found)

    def prepare(self, panel: Panel) -> NamedArrays:
        """All values at every bar."""
        import numpy as np

        parts = [self._table(panel, timeframe) for timeframe in self.config.timeframes]
        return {"table": parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)}

    def warmup_bars(self) -> int:
        """What the parameters say: how many it takes is known to the panel alone."""
        return int(self.config.warmup)

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes the coarser bars as they stand at each environment's bar."""
        view.take(state["table"], out)

    def _table(self, panel: Panel, timeframe: str) -> Array:
        import numpy as np

        from alphaswarm_rl.market.timeframes import coarse_bars

        coarse, names, count = coarse_bars(panel, timeframe), _columns(panel), self.config.bars
        slots = [coarse.newest - age for age in reversed(range(count))]
        rows = [np.maximum(slot, 0) for slot in slots]
        real = [coarse.real[row] & (slot >= 0)[:, None] for row, slot in zip(rows, slots, strict=True)]
        number = np.sum(real, axis=0)
        values = np.zeros((panel.num_bars, count, panel.num_assets, len(names)), np.float32)
        for column, name in enumerate(names):
            base = panel.close
            if name == "volume":
                volumes = (
                    np.where(exists, coarse.columns[name][row], 0.0) for row, exists in zip(rows, real, strict=True)
                )
                base = sum(volumes) / np.maximum(number, 1)
            for slot, (row, exists) in enumerate(zip(rows, real, strict=True)):
                defined = exists & (base > 0)
                over = np.where(defined, coarse.columns[name][row], 1.0) / np.where(defined, base, 1.0)
                values[:, slot, :, column] = over - 1.0
        return np.concatenate([values.reshape(panel.num_bars, -1), (number / count).astype(np.float32)], axis=1)


def _columns(panel: Panel) -> list[str]:
    return [name for name in _COLUMNS if getattr(panel, name) is not None]

"""Ways to choose assets: by name, by the money that they trade, by what they must have shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import Field, model_validator

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.core.kinds import UniverseModel

if TYPE_CHECKING:
    from alphaswarm_rl.core.types import Array
    from alphaswarm_rl.core.view import Panel

#: Bars of a quarter of a year.
_QUARTER = 63


class StaticUniverse(UniverseModel):
    """The assets that are named, whatever the bars say."""

    rl_alias = "static"

    class Config(ComponentConfig):
        """Parameters of a named universe."""

        symbols: list[str] = Field(min_length=1, description="The assets, as the data names them, in their order.")

        @model_validator(mode="after")
        def _each_once(self) -> StaticUniverse.Config:
            if len(set(self.symbols)) < len(self.symbols):
                raise ValueError("a symbol is there twice: name each once")
            return self

    def choose(self, known: Panel) -> Sequence[str]:
        """Those that are named."""
        return tuple(self.config.symbols)


class LivingConfig(ComponentConfig):
    """Parameters of rules that ask whether an asset is traded."""

    lookback: int = Field(_QUARTER, ge=1, description="Newest bars that are looked at.")
    silent_bars: int = Field(
        5, ge=0, description="Bars since an asset's last trade from which on it is passed over: more than these."
    )


class TopTradedValue(UniverseModel):
    """The assets that traded most money in the newest bars, the most traded first.

    Money traded is close times volume, on average over `lookback` bars; a bar without a trade counts as none. An asset
    that has not traded for more than `silent_bars` bars is passed over. Of equals the first by name is taken.
    """

    rl_alias = "top_traded_value"
    reads_prices = True

    class Config(LivingConfig):
        """Parameters of the most traded assets."""

        n: int = Field(20, ge=1, description="How many assets; where fewer trade it is an error.")

    def choose(self, known: Panel) -> Sequence[str]:
        """The most traded ones."""
        config = self.config
        money = _traded_value(self, known, config.lookback)
        living = _bars_since_trade(known) <= config.silent_bars
        ranked = sorted(
            (place for place in range(known.num_assets) if living[place] and money[place] > 0),
            key=lambda place: (-money[place], known.assets[place]),
        )
        if len(ranked) < config.n:
            raise DataError(
                f"the universe {self.rl_alias!r}",
                f"{config.n} assets are to be chosen, and {len(ranked)} of {known.num_assets} traded then",
                "Ask for fewer (n), look back further (lookback), or begin later.",
            )
        return tuple(known.assets[place] for place in ranked[: config.n])


class ScreenedUniverse(UniverseModel):
    """Every asset that has shown what is asked: bars, a price, money traded; in the order of the data.

    An asset that has not traded for more than `silent_bars` bars is passed over.
    """

    rl_alias = "screened"
    reads_prices = True

    class Config(LivingConfig):
        """Parameters of the screen."""

        min_bars: int = Field(252, ge=1, description="Bars on which an asset must have traded, over all that is known.")
        min_price: float = Field(0.0, ge=0, description="Least price of its last close.")
        min_traded_value: float = Field(
            0.0, ge=0, description="Least money traded in a bar, on average over the lookback; above 0 it needs volume."
        )

    def choose(self, known: Panel) -> Sequence[str]:
        """Those that pass."""
        import numpy as np

        config = self.config
        # An asset without a bar yet has no close; no comparison with it holds.
        passes = (known.tradable.sum(axis=0) >= config.min_bars) & (known.close[-1] >= config.min_price)
        passes &= _bars_since_trade(known) <= config.silent_bars
        if config.min_traded_value > 0:
            passes &= _traded_value(self, known, config.lookback) >= config.min_traded_value
        chosen = tuple(known.assets[place] for place in np.flatnonzero(passes))
        if not chosen:
            raise DataError(
                f"the universe {self.rl_alias!r}",
                f"none of {known.num_assets} assets had shown what is asked",
                "Ask for less (min_bars, min_price, min_traded_value), or begin later.",
            )
        return chosen


def _traded_value(model: UniverseModel, known: Panel, lookback: int) -> Array:
    """Close times volume per bar of each asset, (A,), over the newest bars."""
    import numpy as np

    if known.volume is None:
        raise DataError(
            f"the universe {model.rl_alias!r}", "it needs the column 'volume', which the data lack", "Give volumes."
        )
    newest = slice(-lookback, None)
    money = np.where(known.tradable, np.nan_to_num(known.close) * known.volume, 0.0)[newest]
    result: Array = money.sum(axis=0) / len(money)
    return result


def _bars_since_trade(known: Panel) -> Array:
    """How many bars ago each asset traded last, (A,); all of them and one more where it never did."""
    import numpy as np

    bars = np.arange(1, known.num_bars + 1)[:, None]
    last: Array = np.where(known.tradable, bars, 0).max(axis=0)
    never = last == 0
    return np.where(never, known.num_bars + 1, known.num_bars - last)

"""Which assets a run has: chosen once, from the bars that were over when training starts."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from alphaswarm_rl.arrays.moments import moment
from alphaswarm_rl.core.contracts import DataRequest
from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.core.kinds import DataPipeline, UniverseModel
from alphaswarm_rl.core.types import JsonObject
from alphaswarm_rl.core.window import Window
from alphaswarm_rl.market.panel import FEWEST_BARS, MarketPanel


@dataclass(frozen=True)
class Universe:
    """How the assets of a run are chosen.

    Attributes:
        model: What chooses them.
        moment: Date whose past it sees, ISO: the start of training.
    """

    model: UniverseModel
    moment: str

    def choose(self, pipeline: DataPipeline, request: DataRequest) -> Choice:
        """What the model chooses of the assets that the request names; of all that the source has where it names none.

        The pipeline is asked for the bars before that moment and no others, so that a model cannot look further.
        """
        known = known_bars(pipeline, request, self.moment)
        chosen = tuple(self.model.choose(known))
        if not chosen or len(set(chosen)) < len(chosen):
            why = f"it chose {', '.join(chosen)}: an asset twice" if chosen else "it chose no asset"
            raise DataError(f"the universe {self.model.rl_alias!r}", why, "Change its parameters.")
        known.select(chosen)  # an asset that is not there is refused by name
        return Choice(self, chosen, known.num_assets, adjusted=known.adjusted)


@dataclass(frozen=True)
class Choice:
    """What was chosen.

    Attributes:
        universe: How.
        symbols: The assets, in their order.
        candidates: How many there were to choose from.
        adjusted: Whether prices contained dividends and splits already.
    """

    universe: Universe
    symbols: tuple[str, ...]
    candidates: int
    adjusted: bool

    def describe(self) -> JsonObject:
        """What an event says of it."""
        return {
            "model": self.universe.model.rl_alias,
            "known_at": self.universe.moment,
            "candidates": self.candidates,
            "symbols": list(self.symbols),
        }

    def notices(self, name: str, window: Window) -> list[str]:
        """What a window cannot be believed in: it begins before the moment at which its assets were chosen."""
        if window.start is not None and moment(window.start) >= moment(self.universe.moment):
            return []
        return [
            f"universe.model {self.universe.model.rl_alias!r} chose the assets by what was known at "
            f"{self.universe.moment}, and the {name} window begins before: its assets are chosen with hindsight"
        ]

    def price_notices(self) -> list[str]:
        """What a choice by adjusted prices knows of later days."""
        if not (self.adjusted and self.universe.model.reads_prices):
            return []
        return [
            f"universe.model {self.universe.model.rl_alias!r} compares prices, and they are adjusted: they contain "
            "dividends and splits that came later"
        ]


def known_bars(pipeline: DataPipeline, request: DataRequest, date: str) -> MarketPanel:
    """The bars of a pipeline that were over at that date; assets that had none yet have no price in them."""
    before: MarketPanel = pipeline.build(replace(request, window=Window(end=date), warmup_bars=0))
    over = int(np.searchsorted(before.known_at, moment(date), side="right"))
    if over < FEWEST_BARS:
        raise DataError(
            f"what was known at {date}",
            f"{over} bars were over then, and {FEWEST_BARS} are needed to choose assets from",
            "Let training.start be later.",
        )
    return before if over == before.num_bars else before.window(end=before.timestamps[over])

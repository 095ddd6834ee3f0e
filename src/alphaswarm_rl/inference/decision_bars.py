"""The bars of one decision: those that were over by then, cut as a run's window is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from alphaswarm_rl.arrays.moments import Moment, moment, shown
from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.inference.policy_plan import MarketPlan
from alphaswarm_rl.market.panel import FEWEST_BARS, MarketPanel

#: Whether features come from the history that the run had: `unknown` where its checkpoint does not say how long it was.
History = Literal["complete", "short", "unknown"]


def end_of(asof: Moment) -> np.datetime64:
    """The moment that a date means: the end of that day; a time of day is itself."""
    when = moment(asof)
    is_date = isinstance(asof, str) and len(asof) == len("2020-01-01")
    return when + np.timedelta64(1, "D") if is_date else when


def bars_until(bars: MarketPanel, asof: Moment) -> MarketPanel:
    """The bars that were over at a moment; a date is its end."""
    over = int(np.searchsorted(bars.known_at, end_of(asof), side="right"))
    if over < FEWEST_BARS:
        raise DataError(
            f"what was known at {asof}",
            f"{over} bars were over then, and {FEWEST_BARS} are needed",
            f"The first bar is that of {shown(bars.timestamps[0])}.",
        )
    return bars.cut(0, over, warmup=min(bars.warmup, over - 1))


@dataclass(frozen=True)
class DecisionBars:
    """The bars of a decision, cut as the window of a run is.

    Attributes:
        whole: All of them, with their features, before any scaling.
        first: The first one that the policy's market has.
        start: The bar of the episode's first decision, counted in the market's bars.
        history: Whether features come from the history that the run had.
    """

    whole: MarketPanel
    first: int
    start: int
    history: History

    @property
    def panel(self) -> MarketPanel:
        """The market's bars."""
        return self.whole.cut(self.first, self.whole.num_bars, warmup=self.start)

    @property
    def newest(self) -> int:
        """The bar of the decision, counted in the market's bars."""
        return self.whole.num_bars - 1 - self.first


def decision_bars(bars: MarketPanel, traded: MarketPlan, start: Moment | None) -> DecisionBars:
    """The bars of a decision at the last of them.

    Args:
        bars: All bars so far with their features, as the run's data pipeline builds them, before any scaling.
        traded: What the policy's checkpoint says of its market.
        start: The first date of the window that is traded; None: from the first bar on.
    """
    needed = traded.warmup_bars
    begin = bars.warmup if start is None else max(bars.warmup, int(np.searchsorted(bars.timestamps, moment(start))))
    newest = bars.num_bars - 1
    if begin > newest:
        raise DataError(
            f"the bar of {shown(bars.timestamps[-1])}",
            f"the window of the decision starts at {start}",
            "Decide at a later bar, or start earlier: --start DATE.",
        )
    if newest < needed:
        raise DataError(
            f"the history of {bars.num_bars} bars",
            f"the policy looks back {needed} bars before the one of the decision",
            "Give more bars.",
        )
    # A panel has two bars at least: with one alone, the bar before it is there too, and is not looked at.
    first = max(0, min(begin - needed, bars.num_bars - FEWEST_BARS))
    if traded.periods_per_year is not None:
        # Counted in the run's data; other dates could count otherwise.
        bars = replace(bars, periods_per_year=traded.periods_per_year)
    history: History = "unknown"
    if traded.history_start is not None:
        history = "complete" if bars.timestamps[0] <= moment(traded.history_start) else "short"
    return DecisionBars(bars, first, max(begin - first, needed), history)

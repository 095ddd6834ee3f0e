"""Portfolio stages with their arrays: what is selected and allocated by bar, and the order in which stages stand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from alphaswarm_rl.core.errors import ComponentError, DataError, EnvError
from alphaswarm_rl.core.kinds import STAGE_ROLES, PortfolioStage
from alphaswarm_rl.core.types import Array, BackendArray, NamedArrays
from alphaswarm_rl.core.view import Panel, View
from alphaswarm_rl.market.market import Market
from alphaswarm_rl.market.panel import MarketPanel
from alphaswarm_rl.market.part import Part


def check_order(stages: Sequence[PortfolioStage]) -> None:
    """Refuses stages in another order than select, allocate, time, risk, and a second that allocates."""
    for before, after in pairwise(stages):
        if STAGE_ROLES.index(before.role) > STAGE_ROLES.index(after.role):
            raise EnvError(
                f"portfolio stage {after.rl_alias!r}",
                f"its role is {after.role}, and it stands behind {before.rl_alias!r}, whose role is {before.role}",
                f"Write the stages in the order {', '.join(STAGE_ROLES)}.",
            )
        if before.role == after.role == "allocate":
            raise EnvError(
                f"portfolio stage {after.rl_alias!r}",
                f"it allocates, and so does {before.rl_alias!r} before it",
                "Keep one of them.",
            )


def check_columns(stage: PortfolioStage, panel: Panel) -> None:
    """Refuses a stage that needs a column which the panel lacks."""
    for column in stage.needs:
        if getattr(panel, column) is None:
            raise DataError(
                f"column {column!r}",
                f"the portfolio stage {stage.rl_alias!r} needs it and the panel has none",
                "Give bars that have it, or leave that stage out.",
            )


def stage_parts(stages: Sequence[PortfolioStage], market: Market, n: int) -> tuple[StagePart, ...]:
    """The stages with their arrays for n accounts, each behind those before it."""
    check_order(stages)
    parts: list[StagePart] = []
    selected: Array | None = None
    for index, stage in enumerate(stages):
        part = StagePart(stage.after(stages[:index]), market, n, selected)
        selected = part.selected
        parts.append(part)
    return tuple(parts)


def extend_stages(parts: Sequence[StagePart], market: Market) -> None:
    """Goes on with a market of more bars: what was selected and allocated stays, new bars are added."""
    selected: Array | None = None
    for part in parts:
        part.extend_behind(market, selected)
        selected = part.selected


class StagePart(Part):
    """A portfolio stage with its arrays.

    Args:
        stage: The stage.
        market: The bars.
        n: Number of accounts.
        selected: What the stages before it select, (T, A) bool; None: everything.

    Attributes:
        selected: What is selected behind it.
        limited: Whether it limits anything.
    """

    def __init__(self, stage: PortfolioStage, market: Market, n: int, selected: Array | None) -> None:
        self.stage = stage
        self.limited = stage.limits() is not None
        self._panel: MarketPanel | None = None
        self._chosen: Array | None = None
        self._allocated: Array | None = None
        self._read(market.panel, selected)
        super().__init__(stage, market, n)

    def extend_behind(self, market: Market, selected: Array | None) -> None:
        """Goes on with a market of more bars, behind what is selected there."""
        self._read(market.panel, selected)
        self.extend(market)

    def step(self, view: View, out: BackendArray) -> None:
        """One step of all accounts; whatever allocates gives nothing to what is not selected."""
        super().step(view, out)
        if self.stage.role == "allocate" and self.selected is not None:
            view.keep(self.state["selected"], out)

    def measured(self, view: View, weights: BackendArray) -> BackendArray:
        """What its limits are compared with, (n, limits)."""
        return self.stage.measured(view, self.state, weights)

    def _shared(self, market: Market) -> NamedArrays:
        tables = {"selected": self.selected, "allocation": self._allocated}
        put = market.backend.put
        return {
            **super()._shared(market),
            **{name: put(table) for name, table in tables.items() if table is not None},
        }

    def _read(self, panel: MarketPanel, selected: Array | None) -> None:
        """Selects and allocates at the bars that are new."""
        stage, known = self.stage, self._panel
        check_columns(stage, panel)
        if stage.role in ("select", "allocate") and known is not None and not _continues(panel, known):
            self._chosen = self._allocated = None
        if stage.role == "select":
            self._chosen = _held(stage, panel, self._chosen, np.bool_, self._selects)
            selected = self._chosen if selected is None else selected & self._chosen
            if not selected.any():
                raise DataError(
                    f"portfolio stage {stage.rl_alias!r}",
                    f"the universe is empty: none of {panel.num_assets} assets is selected at any of "
                    f"{panel.num_bars} bars",
                    "Ask for less, or give bars of other assets or of a longer time.",
                )
        self.selected = selected
        if stage.role == "allocate" and self._gives_weights(panel):
            self._allocated = _held(stage, panel, self._allocated, np.float64, self._allocates)
        self._panel = panel

    def _gives_weights(self, panel: Panel) -> bool:
        none = np.zeros(0, np.int64)
        return self.stage.allocations(panel, none, np.zeros((0, panel.num_assets), np.bool_)) is not None

    def _selects(self, panel: Panel, bars: Array) -> Array:
        rows = self.stage.selects(panel, bars)
        if rows is None:
            raise ComponentError(
                f"portfolio stage {self.stage.rl_alias!r}",
                "its role is select, and it selects nothing",
                "Write `selects`.",
            )
        found: Array = np.asarray(rows)
        return found

    def _allocates(self, panel: Panel, bars: Array) -> Array:
        everything = np.ones((len(bars), panel.num_assets), np.bool_)
        selected = everything if self.selected is None else self.selected[bars]
        rows: Array = np.asarray(self.stage.allocations(panel, bars, selected))
        if not np.isfinite(rows).all():
            place = bars[np.flatnonzero(~np.isfinite(rows).all(axis=1))[0]]
            raise ComponentError(
                f"portfolio stage {self.stage.rl_alias!r} at {panel.timestamps[place]}",
                "a weight that it gives is not a finite number",
                "Mend the stage, or the bars before that date.",
            )
        return rows


def _held(
    stage: PortfolioStage,
    panel: Panel,
    known: Array | None,
    dtype: type[np.generic],
    make: Callable[[Panel, Array], Array],
) -> Array:
    """A table by bar: made anew where the stage chooses, as it was on other bars; known rows stay."""
    first = 0 if known is None else len(known)
    table = np.zeros((panel.num_bars, panel.num_assets), dtype)
    if known is not None:
        table[:first] = known
    chooses = np.array(stage.chooses(panel), np.bool_)
    chooses[0] = True
    bars = np.flatnonzero(chooses[first:]) + first
    if len(bars):
        table[bars] = make(panel, bars)
    last = np.maximum.accumulate(np.where(chooses, np.arange(panel.num_bars), 0))
    table[first:] = table[last[first:]]
    return table


def _continues(panel: Panel, known: Panel) -> bool:
    """Whether a panel begins with all the bars of another."""
    count = known.num_bars
    return (
        panel.num_bars >= count
        and panel.assets == known.assets
        and np.array_equal(panel.timestamps[:count], known.timestamps)
        and np.array_equal(panel.close[:count], known.close, equal_nan=True)
    )

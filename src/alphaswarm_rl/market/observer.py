"""The observer: what an agent sees, made of the bars so far and an account."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from gymnasium.spaces import Box

from alphaswarm_rl.core.kinds import ObservationBuilder
from alphaswarm_rl.core.types import Array, BackendArray
from alphaswarm_rl.core.view import View
from alphaswarm_rl.market.market import Market
from alphaswarm_rl.market.part import Part


class Observer:
    """Observation builders side by side: a view of n accounts becomes an observation (n, D) float32.

    It is what trading environments step, and needs none of them: with a market of the bars so far and a view of one
    account it shows what the environment showed there, to the bit. Builders that remember see every bar of an episode
    once, in order; `begin` starts the next episode, and `extend` goes on with more bars.

    Args:
        builders: The builders, from left to right.
        market: The bars.
        n: Number of accounts.

    Attributes:
        feature_names: One name per value.
        space: The space of one account's observation.
        parts: The builders with their arrays.
        columns: The columns of each builder.
    """

    def __init__(self, builders: Sequence[ObservationBuilder], market: Market, n: int) -> None:
        names = [builder.names(market.panel) for builder in builders]
        self.feature_names = tuple(name for builder_names in names for name in builder_names)
        self.space = Box(-np.inf, np.inf, (len(self.feature_names),), np.float32)
        self.parts = tuple(Part(builder, market, n) for builder in builders)
        self.columns = tuple(slice(*edges) for edges in pairwise(accumulate(map(len, names), initial=0)))

    def observe(self, view: View, out: BackendArray | None = None) -> BackendArray:
        """What all accounts see, written to `out`; None: to a new array."""
        if out is None:
            out = view.xp.zeros((view.n, len(self.feature_names)), dtype=view.xp.float32)
        for part, columns in zip(self.parts, self.columns, strict=False):
            part.component.step(view, part.state, out[:, columns])
        return out

    def observe_rows(self, view: View, rows: Array, out: BackendArray) -> BackendArray:
        """What some of the accounts see, which `view` shows, written to `out`."""
        for part, columns in zip(self.parts, self.columns, strict=True):
            part.step_rows(view, rows, out[:, columns])
        return out

    def observe_ends(
        self, begun: Observer, before: View, after: View, ended: BackendArray, out: BackendArray, final: BackendArray
    ) -> None:
        """What all accounts see at the end of a step in torch and after resets; what the builders remember follows.

        Args:
            begun: The observer with the arrays, of one row, with which an episode begins.
            before: The accounts at the end of the step.
            after: The accounts after resets.
            ended: Whose episode ended, (n,) bool.
            out: Gets what `after` shows.
            final: Gets what `before` shows, where an episode ended at least.
        """
        backend: Any = before.market.backend
        for fresh, part, columns in zip(begun.parts, self.parts, self.columns, strict=True):
            last, shown = final[:, columns], out[:, columns]
            own: dict[str, Any] = part.own
            backend.only = None if own else ended
            part.step(before, last)
            backend.only = None
            if not own:
                part.step(after, shown)
                continue
            # Where its episode ended, a part's arrays are those of a new one, and it looks once more.
            anew = part.holding({name: backend.xp.by_row(ended, fresh.own[name], array) for name, array in own.items()})
            first = after.xp.zeros_like(last)
            anew.step(after, first)
            shown[...] = backend.xp.by_row(ended, first, last)
            for name, array in own.items():
                array.copy_(backend.xp.by_row(ended, anew.own[name], array))

    def begin(self, rows: Array) -> None:
        """Starts an episode of some accounts."""
        for part in self.parts:
            part.begin(rows)

    def extend(self, market: Market) -> None:
        """Goes on with a market of more bars."""
        for part in self.parts:
            part.extend(market)

    def holding(self, parts: Iterable[Part]) -> Observer:
        """The same observer with parts that hold other arrays."""
        observer = copy(self)
        observer.parts = tuple(parts)
        return observer

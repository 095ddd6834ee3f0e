"""The account's return in a step, for the terms that are made of returns."""

from __future__ import annotations

from alphaswarm_rl.core.types import BackendArray
from alphaswarm_rl.core.view import View


def step_return(view: View) -> BackendArray:
    """Relative change of the equity in the step, (n,); 0 where there was no equity before."""
    return over_equity(view, view.value - view.value_before)


def over_equity(view: View, money: BackendArray) -> BackendArray:
    """Money over the equity before the step, (n,); 0 where there was none."""
    return money / view.xp.where(view.value_before > 0, view.value_before, view.xp.inf)

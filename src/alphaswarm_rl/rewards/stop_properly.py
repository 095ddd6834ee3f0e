"""The cost of an episode that ends by failure."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.kinds import RewardTerm
from alphaswarm_rl.core.types import BackendArray, NamedArrays
from alphaswarm_rl.core.view import ArrayFunctions, View


class StopProperlyWrapper(RewardTerm):
    """Takes part of the return away from an episode that is stopped improperly, on its last step.

    R is the undiscounted sum of the episode's rewards, the last one included. `penalise` takes (1 - coef) |R|: a gain
    shrinks to coef R, a loss grows to (2 - coef) R. `scale` makes it coef R whatever its sign, which rewards failing
    for who is losing. Episodes that end by their horizon or with the data stay as they are.
    """

    rl_alias = "stop_properly"
    rl_short_names = ("StopProperly",)
    rl_category = "shaping"
    settles = True

    class Config(ComponentConfig):
        """Parameters of the stop penalty."""

        coef: float = Field(0.0, ge=0, le=1, description="Part of a gain that is kept; 1: nothing is taken.")
        mode: Literal["penalise", "scale"] = Field(
            "penalise", description="Whether losses grow as gains shrink, or both are multiplied by coef."
        )

    def init(self, n: int, xp: ArrayFunctions) -> NamedArrays:
        """The episode's return so far."""
        return {"total": xp.zeros(n, dtype=xp.float64)}

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes what is taken."""
        total = state["total"] + view.reward
        state["total"][...] = total
        lost = view.xp.abs(total) if self.config.mode == "penalise" else total
        out[...] = view.xp.where(view.improper_stop, (self.config.coef - 1.0) * lost, 0.0)

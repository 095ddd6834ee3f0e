"""The end of an account that holds too much."""

from __future__ import annotations

from pydantic import Field, model_validator

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.kinds import Termination
from alphaswarm_rl.core.types import BackendArray, NamedArrays
from alphaswarm_rl.core.view import View


class RiskBreachTermination(Termination):
    """Ends an episode, by failure, when its positions are above a limit at the close.

    Limits are compared with values at the close over the equity; shorts count as longs. Where there is no equity left,
    any position is above every limit on it.
    """

    rl_alias = "risk_breach"
    rl_short_names = ("RiskBreach",)
    rl_category = "risk"
    improper = True

    class Config(ComponentConfig):
        """Parameters of the limits; at least one is needed."""

        max_gross: float | None = Field(None, gt=0, description="Largest sum of positions over the equity; null: any.")
        max_position: float | None = Field(None, gt=0, description="Largest position over the equity; null: any.")
        max_units: float | None = Field(None, gt=0, description="Largest position in units; null: any.")

        @model_validator(mode="after")
        def _has_a_limit(self) -> RiskBreachTermination.Config:
            if self.max_gross is None and self.max_position is None and self.max_units is None:
                raise ValueError("give at least one of max_gross, max_position and max_units")
            return self

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes where a limit is passed."""
        xp, config = view.xp, self.config
        worth = xp.abs(view.positions * view.close)
        out[...] = False
        # Multiplied and not divided: the equity may be 0 or below.
        if config.max_gross is not None:
            gross = xp.sum(worth, axis=-1)
            out |= (gross > 0) & (gross > config.max_gross * view.value)
        if config.max_position is not None:
            out |= xp.any((worth > 0) & (worth > config.max_position * view.value[:, None]), axis=-1)
        if config.max_units is not None:
            out |= xp.any(xp.abs(view.positions) > config.max_units, axis=-1)

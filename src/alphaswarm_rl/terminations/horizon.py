"""The end after a number of decisions."""

from __future__ import annotations

from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.kinds import Termination
from alphaswarm_rl.core.types import BackendArray, NamedArrays
from alphaswarm_rl.core.view import View


class Horizon(Termination):
    """Truncates an episode after `steps` decisions."""

    rl_alias = "horizon"
    rl_category = "time"

    class Config(ComponentConfig):
        """Parameters of the horizon."""

        steps: int = Field(252, ge=1, description="Decisions in an episode.")

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes where that many were made."""
        out[...] = view.steps >= self.config.steps

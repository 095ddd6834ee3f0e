"""The end of an account that lost too much."""

from __future__ import annotations

from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.kinds import Termination
from alphaswarm_rl.core.types import BackendArray, NamedArrays
from alphaswarm_rl.core.view import View


class DrawdownTermination(Termination):
    """Ends an episode, by failure, when its value is `limit` or more below its highest so far."""

    rl_alias = "drawdown"
    rl_category = "risk"
    improper = True

    class Config(ComponentConfig):
        """Parameters of the drawdown limit."""

        limit: float = Field(0.5, gt=0, le=1, description="Relative distance below the peak.")

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes where the limit is reached."""
        out[...] = view.drawdown >= self.config.limit

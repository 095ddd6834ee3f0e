"""The end of an account that cannot carry its positions."""

from __future__ import annotations

from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.kinds import Termination
from alphaswarm_rl.core.types import BackendArray, NamedArrays
from alphaswarm_rl.core.view import View


class MarginCallTermination(Termination):
    """Ends an episode, by failure, when the account was called for margin or its value is at most `floor`."""

    rl_alias = "margin_call"
    rl_short_names = ("MarginCall",)
    rl_category = "risk"
    improper = True

    class Config(ComponentConfig):
        """Parameters of the margin call."""

        floor: float = Field(0.0, ge=0, description="Value, in money, at which the account is over.")

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes where it was called."""
        out[...] = view.called | (view.value <= self.config.floor)

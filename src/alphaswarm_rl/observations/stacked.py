"""Several observations side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.kinds import Observation, ObservationBuilder
from alphaswarm_rl.core.refs import ComponentRef, ref_to

if TYPE_CHECKING:
    ObservationRef = ComponentRef
else:
    ObservationRef = ref_to("observation")


class Stacked(Observation):
    """Several observations side by side, in the order given."""

    rl_alias = "stacked"

    class Config(ComponentConfig):
        """Parameters of the stack."""

        parts: list[ObservationRef] = Field(min_length=1, description="The observations, from left to right.")

    def builders(self) -> tuple[ObservationBuilder, ...]:
        """Those of its parts."""
        return tuple(builder for part in self.config.parts for builder in part.build().builders())

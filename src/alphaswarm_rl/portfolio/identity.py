"""The stage that changes nothing."""

from __future__ import annotations

from alphaswarm_rl.core.kinds import PortfolioStage
from alphaswarm_rl.core.types import BackendArray, NamedArrays
from alphaswarm_rl.core.view import View


class Identity(PortfolioStage):
    """Leaves the weights as they are."""

    rl_alias = "identity"
    rl_category = "weights"
    rl_short_names = ("IdentityAllocator",)
    role = "allocate"

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes nothing."""

"""The stage that changes nothing."""

from __future__ import annotations

from typing import Any

from alphaswarm_rl.core.kinds import PortfolioStage


class Identity(PortfolioStage):
    """Leaves the weights as they are."""

    rl_alias = "identity"
    rl_category = "weights"

    def step(self, view: Any, state: dict[str, Any], out: Any) -> None:
        """Writes nothing."""

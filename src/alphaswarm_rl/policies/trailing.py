"""What policies that look back at returns have in common."""

from __future__ import annotations

from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig


class TrailingConfig(ComponentConfig):
    """Parameters of every policy that looks back at returns."""

    lookback: int = Field(252, ge=2, description="Returns up to the decision's bar that are looked at.")
    rebalance_bars: int = Field(21, ge=1, description="Bars from one rebalancing to the next.")

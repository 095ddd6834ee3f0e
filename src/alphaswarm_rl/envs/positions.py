"""A position of one unit, long, flat or short: what it earns and what it costs."""

from __future__ import annotations

from typing import Any

import numpy as np

#: The positions that the actions 0, 1 and 2 stand for.
POSITIONS = np.array([-1.0, 0.0, 1.0])
#: The action that is flat.
FLAT = 1


def held(position: Any, action: Any, gain: Any, cost: float, carry: float, xp: Any) -> tuple[Any, Any, Any]:
    """The new position, the reward and the costs in it.

    Args:
        position: The old position, (n,) float64.
        action: 0 short, 1 flat, 2 long, (n,) int64.
        gain: What one unit earns.
        cost: What one unit traded costs.
        carry: What one unit held costs.
        xp: Array functions.
    """
    wanted = xp.zeros_like(position) + (action - FLAT)
    costs = cost * xp.abs(wanted - position) + carry * xp.abs(wanted)
    return wanted, wanted * gain - costs, costs

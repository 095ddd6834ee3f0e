"""How units of one bar compare with those of another."""

from __future__ import annotations

import numpy as np

from alphaswarm_rl.core.types import Array
from alphaswarm_rl.core.view import Panel


def unit_factor(panel: Panel) -> Array:
    """Units at bar t that splits have made of one unit at the first bar, (T, A) float64; a price times it compares."""
    if panel.adjusted or panel.splits is None:
        return np.ones(panel.close.shape)
    return np.cumprod(panel.splits, axis=0)

"""How units of one bar compare with those of another."""

from __future__ import annotations

from typing import Any

import numpy as np


def unit_factor(panel: Any) -> np.ndarray[Any, Any]:
    """Units at bar t that splits have made of one unit at the first bar, (T, A) float64; a price times it compares."""
    if panel.adjusted or panel.splits is None:
        return np.ones(panel.close.shape)
    return np.cumprod(panel.splits, axis=0)

"""From target weights to actions: what several actions share."""

from __future__ import annotations

from alphaswarm_rl.core.types import BackendArray
from alphaswarm_rl.core.view import ArrayFunctions, View


def units_for(view: View, weights: BackendArray) -> BackendArray:
    """Units that are these weights (n, A) of the value at the current closes; 0 where an asset has no price."""
    price = view.close
    known = price > 0
    return view.xp.where(known, weights * view.value[:, None] / view.xp.where(known, price, 1.0), 0.0)


def cast(xp: ArrayFunctions, values: BackendArray, dtype: object) -> BackendArray:
    """The values as a new array of that type, the one of the action space."""
    out = xp.zeros(values.shape, dtype=dtype)
    out[...] = values
    return out


def nearest_whole(xp: ArrayFunctions, values: BackendArray) -> BackendArray:
    """The nearest whole numbers, halves up."""
    return xp.floor(values + 0.5)

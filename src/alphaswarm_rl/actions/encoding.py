"""Between actions, units and weights: what several actions share."""

from __future__ import annotations

from alphaswarm_rl.core.types import BackendArray
from alphaswarm_rl.core.view import ArrayFunctions, View

#: Rounding to float32 moves a number by at most 2**-24 of itself, and a product of it by hardly more.
_ROUNDED = 2.0**-23


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


def as_meant(xp: ArrayFunctions, units: BackendArray) -> BackendArray:
    """The units, whole where only the rounding of float32 keeps them from it: 0.29 of 100 means 29, not 28.999999."""
    whole = nearest_whole(xp, units)
    return xp.where(xp.abs(units - whole) <= _ROUNDED * xp.abs(whole), whole, units)

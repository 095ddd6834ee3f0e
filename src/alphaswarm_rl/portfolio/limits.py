"""Weights within limits: functions of weights (n, A) that make some of them smaller and none larger.

Where a limit is kept the weights come back as they were, bit for bit. In the order of `limit`, what one limit gives
keeps those before it: cutting a weight never raises the largest share, scaling all of them changes no share, and
whatever makes weights smaller only takes away increases.
"""

from __future__ import annotations

from math import floor

from alphaswarm_rl.core.risk_limits import TOLERANCE, RiskLimits
from alphaswarm_rl.core.types import BackendArray
from alphaswarm_rl.core.view import ArrayFunctions, View


def limit(view: View, limits: RiskLimits, out: BackendArray) -> None:
    """Brings the weights in `out` (n, A) within all limits of weights at once; losses play no part.

    Args:
        view: The accounts, whose positions increases are counted from.
        limits: The limits.
        out: The weights.
    """
    xp, backend = view.xp, view.market.backend
    if limits.max_position is not None:
        backend.limit_each(limits.max_position, out)
    if limits.max_gross is not None:
        backend.limit_sum(limits.max_gross, out)
    if limits.max_turnover is not None:
        out[...] = within_turnover(xp, out, view.weights, limits.max_turnover)
    if limits.max_concentration is not None:
        out[...] = within_concentration(xp, out, limits.max_concentration)
    if limits.max_net is not None:
        out[...] = within_net(xp, out, limits.max_net, limits.max_concentration)


def within_turnover(xp: ArrayFunctions, weights: BackendArray, held: BackendArray, most: float) -> BackendArray:
    """Increases scaled alike, so that they sum to at most `most`; reductions pass as they are."""
    kept = _kept(xp, weights, held)
    increase = weights - kept
    share = _cut(xp, gross(xp, increase), most)[:, None]
    return xp.where(share < 1.0, kept + share * increase, weights)


def within_net(
    xp: ArrayFunctions, weights: BackendArray, most: float, max_concentration: float | None = None
) -> BackendArray:
    """The heavier of longs and shorts scaled, so that they differ by at most `most`.

    Where that would concentrate the weights too much, longs and shorts are scaled alike.
    """
    longs, shorts = _sides(xp, weights)
    apart = xp.abs(longs - shorts)
    broken = apart > most
    heavier = xp.where(broken, xp.maximum(longs, shorts), 1.0)
    share = xp.where(broken, (xp.minimum(longs, shorts) + most) / heavier, 1.0)[:, None]
    heavy = (weights > 0) == (longs > shorts)[:, None]
    one_side = xp.where(heavy, weights * share, weights)
    if max_concentration is None:
        return one_side
    both = weights * _cut(xp, apart, most)[:, None]
    largest = xp.max(xp.abs(one_side), axis=-1)
    fits = largest <= max_concentration * (1.0 + TOLERANCE) * gross(xp, one_side)
    return xp.where(fits[:, None], one_side, both)


def within_concentration(xp: ArrayFunctions, weights: BackendArray, most: float) -> BackendArray:
    """The largest weights cut to one size, so that none is more than the part `most` of the sum of |w|.

    The size is the largest that does it; fewer than 1 / `most` assets leave none, and then nothing is held.
    """
    sizes = xp.abs(weights)
    ascending = xp.sort(sizes, axis=-1)
    sums = xp.cumsum(ascending, axis=-1)
    count = sizes.shape[1]
    number = floor(1.0 / most + 1e-9)
    whole = abs(number * most - 1.0) < 1e-9
    # So many equal weights, and no other, fill the whole sum exactly.
    size = ascending[:, count - number] if whole and number <= count else xp.zeros_like(sums[:, 0])
    for cut in reversed(range(min(number if whole else number + 1, count))):
        # With the `cut` largest at one size, that size is this part of what the others sum to.
        others = count - 1 - cut
        cap = most * sums[:, others] / (1.0 - cut * most)
        size = xp.where(ascending[:, others] <= cap * (1.0 + TOLERANCE), cap, size)
    size = size[:, None]
    kept = ascending[:, -1:] <= size * (1.0 + TOLERANCE)
    return xp.where(kept, weights, xp.clip(weights, -size, size))


def gross(xp: ArrayFunctions, weights: BackendArray) -> BackendArray:
    """The sum of |w|, (n,)."""
    return xp.sum(xp.abs(weights), axis=-1)


def net(xp: ArrayFunctions, weights: BackendArray) -> BackendArray:
    """How far longs and shorts are apart, (n,)."""
    longs, shorts = _sides(xp, weights)
    return xp.abs(longs - shorts)


def concentration(xp: ArrayFunctions, weights: BackendArray) -> BackendArray:
    """The largest |w| as a part of their sum, (n,); 0 where there is none."""
    total = gross(xp, weights)
    return xp.max(xp.abs(weights), axis=-1) / xp.where(total > 0, total, 1.0)


def increases(xp: ArrayFunctions, weights: BackendArray, held: BackendArray) -> BackendArray:
    """By how much positions grow on their way to these weights, (n,): what changes sides grows from nothing."""
    return gross(xp, weights - _kept(xp, weights, held))


def _kept(xp: ArrayFunctions, weights: BackendArray, held: BackendArray) -> BackendArray:
    """What of the weights is held already, (n, A)."""
    return xp.where(weights * held > 0, xp.sign(weights) * xp.minimum(xp.abs(weights), xp.abs(held)), 0.0)


def _sides(xp: ArrayFunctions, weights: BackendArray) -> tuple[BackendArray, BackendArray]:
    longs = xp.sum(xp.where(weights > 0, weights, 0.0), axis=-1)
    return longs, xp.sum(xp.where(weights < 0, -weights, 0.0), axis=-1)


def _cut(xp: ArrayFunctions, found: BackendArray, most: float) -> BackendArray:
    """What to multiply by so that `found` is at most `most`: 1 where it is."""
    return xp.where(found > most, most / xp.where(found > most, found, 1.0), 1.0)

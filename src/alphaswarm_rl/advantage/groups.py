"""Mean and spread of the rewards in each cohort, with or without the one that is judged.

Both come from merging (count, mean, sum of squared distances) of parts of a cohort, which is as exact as two passes
over it and never subtracts two large numbers: where the others' rewards are equal their spread is exactly 0. The merges
are a scan over the sorted samples, so that they need no scattered additions, whose order a GPU does not keep.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from alphaswarm_rl.advantage.arrays import namespace


@dataclass(frozen=True)
class GroupStatistics:
    """What each of M samples is compared with; arrays (M,).

    Attributes:
        baseline: The mean reward of its cohort; its own reward where the cohort has but one valid member.
        std: The standard deviation there, with one degree of freedom taken off; 0 where there is none.
        count: Valid members of its cohort.
    """

    baseline: Any
    std: Any
    count: Any


def group_statistics(rewards: Any, groups: Any, valid: Any, *, leave_one_out: bool) -> GroupStatistics:
    """Mean and standard deviation of each sample's cohort, over its valid members.

    Args:
        rewards: One number per sample, (M,).
        groups: Its cohort, a whole number, (M,).
        valid: Whether it counts, (M,).
        leave_one_out: Whether a sample is left out of what it is compared with.
    """
    xp = namespace(rewards)
    order = xp.argsort(groups, stable=True)
    ids, own = groups[order], rewards[order]
    count = xp.where(valid[order], xp.ones_like(own), xp.zeros_like(own))
    leaf = (count, xp.where(valid[order], own, xp.zeros_like(own)), xp.zeros_like(own))
    before = _scan(leaf, ids)
    last = xp.searchsorted(ids, ids, side="right") - 1
    whole = tuple(part[last] for part in before)
    compared = whole
    if leave_one_out:
        after = tuple(xp.flip(part, (0,)) for part in _scan(_flipped(leaf), xp.flip(ids, (0,))))
        compared = _merge(_shifted(before, ids, 1), _shifted(after, ids, -1))
    counted, mean, squares = compared
    alone = whole[0] <= 1
    spread = (squares / (counted - 1).clip(min=1)) ** 0.5
    spread = xp.where(alone | (counted <= 1), xp.zeros_like(own), spread)
    back = xp.argsort(order, stable=True)
    return GroupStatistics(xp.where(alone, own, mean)[back], spread[back], whole[0][back])


def _merge(left: Any, right: Any) -> Any:
    """Count, mean and sum of squared distances of two parts together; an empty part is all 0."""
    count = left[0] + right[0]
    share = right[0] / count.clip(min=1)
    distance = right[1] - left[1]
    return count, left[1] + distance * share, left[2] + right[2] + distance * distance * left[0] * share


def _scan(parts: Any, ids: Any) -> Any:
    """Each sample merged with all before it of the same cohort; cohorts lie together. Doubles its reach each round."""
    xp, reach = namespace(ids), 1
    while reach < len(ids):
        same = ids[reach:] == ids[:-reach]
        merged = _merge(tuple(part[:-reach] for part in parts), tuple(part[reach:] for part in parts))
        parts = tuple(
            xp.concatenate([part[:reach], xp.where(same, both, part[reach:])])
            for part, both in zip(parts, merged, strict=True)
        )
        reach *= 2
    return parts


def _flipped(parts: Any) -> Any:
    return tuple(namespace(part).flip(part, (0,)) for part in parts)


def _shifted(parts: Any, ids: Any, by: int) -> Any:
    """The neighbour's part, or an empty one where the neighbour is of another cohort or there is none."""
    xp = namespace(ids)
    apart = xp.roll(ids, by) != ids
    apart[0 if by > 0 else -1] = True
    return tuple(xp.where(apart, xp.zeros_like(part), xp.roll(part, by)) for part in parts)

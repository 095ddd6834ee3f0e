"""Advantages as pure functions. Every array is NumPy's or torch's, on any device, and the answer is of the same kind.

Rollouts are (T, N): T steps of N environments. Estimators without a critic compare whole episodes: a rollout becomes M
samples (`episode_samples`), each with one reward and a cohort, and each is compared with its cohort
(`group_statistics`).

Schulman et al., "High-dimensional continuous control using generalized advantage estimation" (2015); Shao et al.,
"DeepSeekMath" (2024) for GRPO; Hu, "REINFORCE++" (2025).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from alphaswarm_rl.core.contracts import RolloutRewards
from alphaswarm_rl.core.types import BackendArray

#: What keeps a division by a standard deviation finite.
_GRPO_FLOOR = 1e-6
_VARIANCE_FLOOR = 1e-8

#: Count, mean and sum of squared distances of parts of cohorts, (M,) each.
_Parts = tuple[BackendArray, ...]


def namespace(array: BackendArray) -> Any:
    """The library that an array belongs to: NumPy or torch."""
    if isinstance(array, np.ndarray | np.generic):
        return np
    import torch

    return torch


def gae(
    rewards: BackendArray,
    values: BackendArray,
    next_values: BackendArray,
    terminated: BackendArray,
    truncated: BackendArray,
    *,
    gamma: float,
    lam: float,
    valid: BackendArray = None,
) -> tuple[BackendArray, BackendArray]:
    """Generalised advantages and the returns that a critic should learn, (T, N) each; see `RolloutRewards`.

    Backwards in time: delta = r + gamma V_next - V and A = delta + gamma lam A_next. V_next is `next_values`, 0 where
    the episode terminated; A_next is 0 behind the end of an episode and of the rollout. A step that is not valid is
    passed over as if it were not there: the valid step before it takes V_next and A_next from behind it (an end of the
    episode counts all the same); its own advantage is 0 and its return is its value.
    """
    xp = namespace(rewards)
    ended = terminated | truncated
    after = xp.where(terminated, xp.zeros_like(next_values), next_values)
    if valid is not None:
        after = _passed_over(after, ended, valid)
    deltas = rewards + gamma * after - values
    fading = xp.where(ended, xp.zeros_like(deltas), gamma * lam * xp.ones_like(deltas))
    advantages = xp.zeros_like(deltas)
    running = xp.zeros_like(deltas[-1])
    for t in reversed(range(len(deltas))):
        if valid is None:
            running = advantages[t] = deltas[t] + fading[t] * running
        else:
            here = deltas[t] + fading[t] * running
            advantages[t] = xp.where(valid[t], here, xp.zeros_like(here))
            running = xp.where(valid[t], here, xp.where(ended[t], xp.zeros_like(here), running))
    return advantages, advantages + values


def _passed_over(after: BackendArray, ended: BackendArray, valid: BackendArray) -> BackendArray:
    """V_next where steps that are not valid are passed over."""
    xp = namespace(after)
    found = [after[-1]]
    for t in reversed(range(len(after) - 1)):
        found.append(xp.where(ended[t] | valid[t + 1], after[t], found[-1]))
    return xp.stack(found[::-1])


def whitened(advantages: BackendArray, valid: BackendArray = None) -> BackendArray:
    """Advantages of mean 0 and standard deviation 1 over the valid steps (sample variance); 0 at the others.

    One valid step alone becomes 0.
    """
    count, centred, squares = _moments(advantages, valid)
    scaled = centred * (squares / (count - 1).clip(min=1) + _VARIANCE_FLOOR) ** -0.5
    if valid is None:
        return scaled
    xp = namespace(advantages)
    return xp.where(valid, scaled, xp.zeros_like(scaled))


def globally_normalized(advantages: BackendArray, valid: BackendArray = None) -> BackendArray:
    """Advantages less their mean, over their standard deviation, both over the valid steps (population variance).

    Long episodes weigh more than short ones. Steps that are not valid are moved and scaled like the others.
    """
    count, centred, squares = _moments(advantages, valid)
    return centred * (squares / count.clip(min=1)).clip(min=_VARIANCE_FLOOR) ** -0.5


def grpo(
    rewards: BackendArray,
    groups: BackendArray,
    valid: BackendArray,
    *,
    leave_one_out: bool = True,
    normalize: bool = True,
) -> tuple[BackendArray, GroupStatistics]:
    """Each sample's reward less its cohort's mean, over its cohort's standard deviation, (M,).

    Where that is 0 the difference stays as it is. DeepSeek's GRPO is the one without `leave_one_out`.
    """
    xp = namespace(rewards)
    cohort = group_statistics(rewards, groups, valid, leave_one_out=leave_one_out)
    advantages = rewards - cohort.baseline
    if normalize:
        advantages = xp.where(cohort.std > 0, advantages / (cohort.std + _GRPO_FLOOR), advantages)
    return advantages, cohort


def _moments(x: BackendArray, valid: BackendArray) -> tuple[BackendArray, BackendArray, BackendArray]:
    """How many steps count, x less their mean, and the sum of their squared distances from it, in two passes."""
    xp = namespace(x)
    valid = xp.ones_like(x, dtype=xp.bool) if valid is None else valid
    # In the type of x: NumPy would make float64 of float32 over a whole number.
    count = xp.where(valid, xp.ones_like(x), xp.zeros_like(x)).sum()
    centred = x - xp.where(valid, x, xp.zeros_like(x)).sum() / count.clip(min=1)
    return count, centred, (xp.where(valid, centred, xp.zeros_like(x)) ** 2).sum()


@dataclass(frozen=True)
class EpisodeSamples:
    """Every episode, or piece of one, in a rollout; environment by environment, in the order they were played.

    Attributes:
        rewards: Sum of the rewards of its steps that count, (M,).
        valid: Whether any step of it counts, (M,).
        groups: Its cohort, (M,).
        numbers: The sample that each step belongs to, (T, N).
    """

    rewards: BackendArray
    valid: BackendArray
    groups: BackendArray
    numbers: BackendArray

    @property
    def judged(self) -> tuple[BackendArray, BackendArray, BackendArray]:
        """What samples are judged by: rewards, cohorts, and whether they count."""
        return self.rewards, self.groups, self.valid

    def spread(self, per_sample: BackendArray) -> BackendArray:
        """A number per sample as a number per step, (T, N): each step has that of its sample."""
        return per_sample[self.numbers]


def episode_samples(rollout: RolloutRewards) -> EpisodeSamples:
    """The samples of a rollout."""
    rewards = rollout.rewards
    xp = namespace(rewards)
    ended = rollout.terminated | rollout.truncated
    valid = xp.ones_like(ended) if rollout.valid is None else rollout.valid
    counted = xp.where(valid, rewards, xp.zeros_like(rewards))
    sums, seen = [counted[0]], [valid[0]]
    for t in range(1, len(rewards)):
        sums.append(counted[t] + xp.where(ended[t - 1], xp.zeros_like(counted[t]), sums[-1]))
        seen.append(valid[t] | (seen[-1] & ~ended[t - 1]))
    last = xp.concatenate([ended[:-1], xp.ones_like(ended[-1:])])
    if rollout.group_ids is None:
        groups = xp.zeros_like(rewards, dtype=xp.int64)
    else:
        groups = xp.broadcast_to(rollout.group_ids, rewards.shape)
    # Environment by environment: the number of a step's sample is the number of samples that ended before it.
    ends = last.T.reshape(-1)
    numbers = xp.cumsum(ends, 0) - xp.where(ends, 1, 0)
    return EpisodeSamples(
        rewards=xp.stack(sums).T.reshape(-1)[ends],
        valid=xp.stack(seen).T.reshape(-1)[ends],
        groups=groups.T.reshape(-1)[ends],
        numbers=numbers.reshape(last.T.shape).T,
    )


@dataclass(frozen=True)
class GroupStatistics:
    """What each of M samples is compared with; arrays (M,).

    Attributes:
        baseline: The mean reward of its cohort; its own reward where the cohort has but one valid member.
        std: The standard deviation there, with one degree of freedom taken off; 0 where there is none.
        count: Valid members of its cohort.
    """

    baseline: BackendArray
    std: BackendArray
    count: BackendArray


def group_statistics(
    rewards: BackendArray, groups: BackendArray, valid: BackendArray, *, leave_one_out: bool
) -> GroupStatistics:
    """Mean and standard deviation of each sample's cohort, over its valid members.

    Both come from merging (count, mean, sum of squared distances) of parts of a cohort, which is as exact as two passes
    over it and never subtracts two large numbers: where the others' rewards are equal their spread is exactly 0. The
    merges are a scan over the sorted samples, so that they need no scattered additions, whose order a GPU does not
    keep.

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


def _merge(left: _Parts, right: _Parts) -> _Parts:
    """Count, mean and sum of squared distances of two parts together; an empty part is all 0."""
    count = left[0] + right[0]
    share = right[0] / count.clip(min=1)
    distance = right[1] - left[1]
    return count, left[1] + distance * share, left[2] + right[2] + distance * distance * left[0] * share


def _scan(parts: _Parts, ids: BackendArray) -> _Parts:
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


def _flipped(parts: _Parts) -> _Parts:
    return tuple(namespace(part).flip(part, (0,)) for part in parts)


def _shifted(parts: _Parts, ids: BackendArray, by: int) -> _Parts:
    """The neighbour's part, or an empty one where the neighbour is of another cohort or there is none."""
    xp = namespace(ids)
    apart = xp.roll(ids, by) != ids
    apart[0 if by > 0 else -1] = True
    return tuple(xp.where(apart, xp.zeros_like(part), xp.roll(part, by)) for part in parts)

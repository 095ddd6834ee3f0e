"""Advantages as pure functions. Every array is NumPy's or torch's, on any device, and the answer is of the same kind.

Schulman et al., "High-dimensional continuous control using generalized advantage estimation" (2015); Shao et al.,
"DeepSeekMath" (2024) for GRPO; Hu, "REINFORCE++" (2025).
"""

from __future__ import annotations

from typing import Any

from alphaswarm_rl.advantage.arrays import namespace
from alphaswarm_rl.advantage.groups import GroupStatistics, group_statistics

#: What keeps a division by a standard deviation finite.
_GRPO_FLOOR = 1e-6
_VARIANCE_FLOOR = 1e-8


def gae(
    rewards: Any,
    values: Any,
    next_values: Any,
    terminated: Any,
    truncated: Any,
    *,
    gamma: float,
    lam: float,
    valid: Any = None,
) -> tuple[Any, Any]:
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


def _passed_over(after: Any, ended: Any, valid: Any) -> Any:
    """V_next where steps that are not valid are passed over."""
    xp = namespace(after)
    found = [after[-1]]
    for t in reversed(range(len(after) - 1)):
        found.append(xp.where(ended[t] | valid[t + 1], after[t], found[-1]))
    return xp.stack(found[::-1])


def whitened(advantages: Any, valid: Any = None) -> Any:
    """Advantages of mean 0 and standard deviation 1 over the valid steps (sample variance); 0 at the others.

    One valid step alone becomes 0.
    """
    count, centred, squares = _moments(advantages, valid)
    scaled = centred * (squares / (count - 1).clip(min=1) + _VARIANCE_FLOOR) ** -0.5
    if valid is None:
        return scaled
    xp = namespace(advantages)
    return xp.where(valid, scaled, xp.zeros_like(scaled))


def globally_normalized(advantages: Any, valid: Any = None) -> Any:
    """Advantages less their mean, over their standard deviation, both over the valid steps (population variance).

    Long episodes weigh more than short ones. Steps that are not valid are moved and scaled like the others.
    """
    count, centred, squares = _moments(advantages, valid)
    return centred * (squares / count.clip(min=1)).clip(min=_VARIANCE_FLOOR) ** -0.5


def grpo(
    rewards: Any, groups: Any, valid: Any, *, leave_one_out: bool = True, normalize: bool = True
) -> tuple[Any, GroupStatistics]:
    """Each sample's reward less its cohort's mean, over its cohort's standard deviation, (M,).

    Where that is 0 the difference stays as it is. DeepSeek's GRPO is the one without `leave_one_out`.
    """
    xp = namespace(rewards)
    cohort = group_statistics(rewards, groups, valid, leave_one_out=leave_one_out)
    advantages = rewards - cohort.baseline
    if normalize:
        advantages = xp.where(cohort.std > 0, advantages / (cohort.std + _GRPO_FLOOR), advantages)
    return advantages, cohort


def reinforce_plus_plus(
    rewards: Any, groups: Any, valid: Any, *, minus_baseline: bool = True, leave_one_out: bool = True
) -> tuple[Any, GroupStatistics | None]:
    """Each sample's reward, less its cohort's mean where that is wanted, (M,); to be spread and normalised globally."""
    if not minus_baseline:
        return rewards, None
    cohort = group_statistics(rewards, groups, valid, leave_one_out=leave_one_out)
    return rewards - cohort.baseline, cohort


def _moments(x: Any, valid: Any) -> tuple[Any, Any, Any]:
    """How many steps count, x less their mean, and the sum of their squared distances from it, in two passes."""
    xp = namespace(x)
    valid = xp.ones_like(x, dtype=xp.bool) if valid is None else valid
    # In the type of x: NumPy would make float64 of float32 over a whole number.
    count = xp.where(valid, xp.ones_like(x), xp.zeros_like(x)).sum()
    centred = x - xp.where(valid, x, xp.zeros_like(x)).sum() / count.clip(min=1)
    return count, centred, (xp.where(valid, centred, xp.zeros_like(x)) ** 2).sum()

"""The episodes of a rollout, and the pieces of episodes at its two ends, as samples with one reward each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from alphaswarm_rl.advantage.arrays import namespace
from alphaswarm_rl.core.contracts import RolloutRewards


@dataclass(frozen=True)
class EpisodeSamples:
    """Every episode, or piece of one, in a rollout; environment by environment, in the order they were played.

    Attributes:
        rewards: Sum of the rewards of its steps that count, (M,).
        valid: Whether any step of it counts, (M,).
        groups: Its cohort, (M,).
        numbers: The sample that each step belongs to, (T, N).
    """

    rewards: Any
    valid: Any
    groups: Any
    numbers: Any

    def spread(self, per_sample: Any) -> Any:
        """What was said of each sample, said of each of its steps, (T, N)."""
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

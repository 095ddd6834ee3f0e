"""Advantages once more, in plain loops over single sequences: what the array code is held to."""

from __future__ import annotations

import math

import numpy as np


def sequences(terminated, truncated):
    """Every (environment, steps) of an episode, or piece of one, in a rollout."""
    steps, envs = terminated.shape
    for env in range(envs):
        sequence = []
        for t in range(steps):
            sequence.append(t)
            if terminated[t, env] or truncated[t, env] or t == steps - 1:
                yield env, sequence
                sequence = []


def gae(rewards, values, next_values, terminated, truncated, valid, gamma, lam):
    """A at a valid step is the sum of (gamma lam)^k delta over the valid steps from it on."""
    advantages, returns = np.zeros(rewards.shape), values.copy()
    for env, sequence in sequences(terminated, truncated):
        kept = [t for t in sequence if valid[t, env]]
        deltas = []
        for k, t in enumerate(kept):
            # The last step before the next valid one; of the sequence where there is none.
            before = kept[k + 1] - 1 if k + 1 < len(kept) else sequence[-1]
            after = 0.0 if terminated[before, env] else next_values[before, env]
            deltas.append(rewards[t, env] + gamma * after - values[t, env])
        for k, t in enumerate(kept):
            advantages[t, env] = math.fsum((gamma * lam) ** j * delta for j, delta in enumerate(deltas[k:]))
            returns[t, env] = advantages[t, env] + values[t, env]
    return advantages, returns


def moments(advantages, valid):
    """Count, mean and sum of squared distances over the valid steps."""
    kept = [float(a) for a, counts in zip(advantages.ravel(), valid.ravel(), strict=True) if counts]
    mean = math.fsum(kept) / max(len(kept), 1)
    return len(kept), mean, math.fsum((a - mean) ** 2 for a in kept)


def whitened(advantages, valid):
    count, mean, squares = moments(advantages, valid)
    return np.where(valid, (advantages - mean) / math.sqrt(squares / max(count - 1, 1) + 1e-8), 0.0)


def globally_normalized(advantages, valid):
    count, mean, squares = moments(advantages, valid)
    return (advantages - mean) / math.sqrt(max(squares / max(count, 1), 1e-8))


def cohort(rewards, groups, valid, i, leave_one_out):
    """Baseline and standard deviation for sample i."""
    members = [j for j in range(len(rewards)) if groups[j] == groups[i] and valid[j]]
    if len(members) <= 1:
        return rewards[i], 0.0
    others = [rewards[j] for j in members if not (leave_one_out and j == i)]
    mean = math.fsum(others) / len(others)
    if len(others) == 1:
        return mean, 0.0
    return mean, math.sqrt(math.fsum((r - mean) ** 2 for r in others) / (len(others) - 1))


def samples(rewards, terminated, truncated, valid, group_ids):
    """(environment, steps, reward, whether any step counts, cohort) of each sequence."""
    return [
        (
            env,
            sequence,
            math.fsum(rewards[t, env] for t in sequence if valid[t, env]),
            any(valid[t, env] for t in sequence),
            group_ids[sequence[-1], env],
        )
        for env, sequence in sequences(terminated, truncated)
    ]


def _by_cohort(rewards, terminated, truncated, valid, group_ids, judge):
    found = samples(rewards, terminated, truncated, valid, group_ids)
    sums, counts, groups = ([sample[k] for sample in found] for k in (2, 3, 4))
    advantages = np.zeros(rewards.shape)
    for i, (env, sequence, *_) in enumerate(found):
        for t in sequence:
            advantages[t, env] = judge(sums, groups, counts, i)
    return advantages


def grpo(rewards, terminated, truncated, valid, group_ids, leave_one_out, normalize):
    def judge(sums, groups, counts, i):
        mean, std = cohort(sums, groups, counts, i, leave_one_out)
        return (sums[i] - mean) / (std + 1e-6) if normalize and std > 0 else sums[i] - mean

    return _by_cohort(rewards, terminated, truncated, valid, group_ids, judge)


def reinforce_plus_plus(rewards, terminated, truncated, valid, group_ids, minus_baseline, normalize, leave_one_out):
    def judge(sums, groups, counts, i):
        return sums[i] - (cohort(sums, groups, counts, i, leave_one_out)[0] if minus_baseline else 0.0)

    advantages = _by_cohort(rewards, terminated, truncated, valid, group_ids, judge)
    return globally_normalized(advantages, valid) if normalize else advantages

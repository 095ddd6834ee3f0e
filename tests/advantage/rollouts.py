"""Rollouts for property tests."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from alphaswarm_rl.core.contracts import RolloutRewards

NUMBERS = st.floats(-10, 10, allow_subnormal=False)
#: On a grid of eighths, so that sums of rewards do not depend on their order.
REWARDS = st.integers(-16, 16).map(lambda eighths: eighths / 8)


EITHER = st.booleans()


@st.composite
def rollouts(draw, masked=EITHER):
    """Any rollout: several episodes per environment, pieces at both ends, holes, cohorts of any size."""
    shape = draw(st.tuples(st.integers(1, 8), st.integers(1, 5)))
    flags = arrays.arrays(np.bool_, shape)
    terminated = draw(flags) & draw(flags)
    truncated = draw(flags) & draw(flags) & ~terminated
    values = draw(arrays.arrays(np.float64, shape, elements=NUMBERS))
    next_values = draw(arrays.arrays(np.float64, shape, elements=NUMBERS))
    goes_on = ~(terminated | truncated)[:-1]
    next_values[:-1][goes_on] = values[1:][goes_on]
    next_values[terminated] = np.nan  # what stands there counts as 0
    how = draw(st.sampled_from(["no", "envs", "steps"]))
    groups = None
    if how != "no":
        groups = draw(arrays.arrays(np.int64, shape[1:] if how == "envs" else shape, elements=st.integers(-1, 2)))
    return RolloutRewards(
        rewards=draw(arrays.arrays(np.float64, shape, elements=REWARDS)),
        terminated=terminated,
        truncated=truncated,
        values=values,
        next_values=next_values,
        valid=draw(flags) if draw(masked) else None,
        group_ids=groups,
    )


def in_torch(rollout: RolloutRewards) -> RolloutRewards:
    """The same rollout in torch's arrays."""
    import torch

    parts = {field.name: getattr(rollout, field.name) for field in fields(rollout)}
    return RolloutRewards(**{name: None if part is None else torch.from_numpy(part) for name, part in parts.items()})


def written_out(rollout: RolloutRewards):
    """Its mask and its cohorts, said for every step."""
    shape = rollout.rewards.shape
    valid = np.ones(shape, np.bool_) if rollout.valid is None else rollout.valid
    groups = np.zeros(shape, np.int64) if rollout.group_ids is None else np.broadcast_to(rollout.group_ids, shape)
    return valid, groups

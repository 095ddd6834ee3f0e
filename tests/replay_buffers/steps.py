"""Buffers under test, and steps to fill them with."""

from __future__ import annotations

import json

import numpy as np

from alphaswarm_rl.core.contracts import ReplayBufferField, ReplayBufferRequest, State
from alphaswarm_rl.core.refs import build_from_config

#: A transition with things that are easily corrupted: negative and broken numbers, large whole ones, flags.
FIELDS = {
    "observation": ReplayBufferField((2,), np.float64),
    "info": ReplayBufferField((3,), np.float32),
    "action": ReplayBufferField((), np.int64),
    "reward": ReplayBufferField((), np.float64),
    "next_observation": ReplayBufferField((2,), np.float64),
    "next_info": ReplayBufferField((3,), np.float32),
    "terminated": ReplayBufferField((), np.bool_),
    "truncated": ReplayBufferField((), np.bool_),
}


def buffer(alias, num_envs=2, seed=0, fields=FIELDS, **kwargs):
    """An empty buffer."""
    component = build_from_config({"class": alias, "kwargs": kwargs}, kind="replay_buffer")
    return component.build(ReplayBufferRequest(fields, num_envs, seed))


def steps(count, num_envs=2, first=0, ends=0.0, seed=0):
    """`count` steps of all environments; the observation of step t of environment e is (t, e), then of t + 1."""
    rng = np.random.default_rng((seed, first))
    time = np.arange(first, first + count, dtype=np.float64)
    grid = np.stack(np.broadcast_arrays(time[:, None], np.arange(float(num_envs))), axis=-1)
    shape = (count, num_envs)
    ended = rng.random(shape) < ends
    terminated = ended & (rng.random(shape) < 0.5)
    return {
        "observation": grid,
        "info": rng.normal(size=(*shape, 3)).astype(np.float32),
        "action": rng.integers(-(2**40), 2**40, shape),
        "reward": rng.normal(size=shape),
        "next_observation": grid + np.array([1, 0]),
        "next_info": rng.normal(size=(*shape, 3)).astype(np.float32),
        "terminated": terminated,
        "truncated": ended & ~terminated,
    }


def contents(found):
    """Every row of a buffer, sorted by (step, environment) of its observation."""
    state = found.get_state()
    names = {name.rpartition("/")[2]: array for name, array in state.arrays.items() if "ring/" in name}
    order = np.lexsort((names["observation"][:, 1], names["observation"][:, 0]))
    return {name: array[order] for name, array in names.items()}


def through_json(state: State) -> State:
    """A state as a checkpoint brings it back."""
    return State({name: array.copy() for name, array in state.arrays.items()}, json.loads(json.dumps(state.data)))

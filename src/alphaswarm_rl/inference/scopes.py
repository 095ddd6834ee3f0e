"""Which models may be compared: those whose rewards mean the same, with the same observations and actions."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from gymnasium import spaces

from alphaswarm_rl.core.contracts import AnyVectorEnv
from alphaswarm_rl.core.hashing import canonical_json, sha256_text
from alphaswarm_rl.envs.passing import WatchedEnv
from alphaswarm_rl.envs.preprocessing import PreprocessedEnv
from alphaswarm_rl.models.rows import Scope
from alphaswarm_rl.spec import RLExperimentSpec

#: The parts of a spec that decide what a reward means.
_OF_THE_REWARD = ("env", "reward", "terminations", "data_pipeline")


def scope_of(spec: RLExperimentSpec, env: AnyVectorEnv) -> Scope:
    """The scope of models that a spec trains.

    Args:
        spec: The spec.
        env: Its environment, built; watched and preprocessed or not.
    """
    return Scope(
        env_id=env_id_of(spec),
        env_signature=_env_signature(spec),
        observation_signature=space_signature(raw_env(env).single_observation_space),
        action_signature=space_signature(env.single_action_space),
    )


def env_id_of(spec: RLExperimentSpec) -> str:
    """The environment of a spec, as people call it."""
    assert spec.env is not None
    return str(spec.env.kwargs.get("id") or spec.env.name) if spec.env.name == "gymnasium" else spec.env.name


def raw_env(env: AnyVectorEnv) -> AnyVectorEnv:
    """The environment as it is before anybody watches it and before preprocessing."""
    while isinstance(env, WatchedEnv | PreprocessedEnv):
        env = env.env
    return env


def _env_signature(spec: RLExperimentSpec) -> str:
    canonical = spec.canonical()
    parts = {name: canonical[name] for name in _OF_THE_REWARD}
    return sha256_text("alphaswarm-rl/env/1\n" + canonical_json({**parts, "symbols": list(spec.universe.symbols)}))


def space_signature(space: spaces.Space[Any]) -> str:
    """A space as text: equal spaces have equal texts, others have others."""
    if isinstance(space, spaces.Dict):
        return "Dict(" + ", ".join(f"{key}: {space_signature(part)}" for key, part in sorted(space.items())) + ")"
    if isinstance(space, spaces.Tuple):
        return "Tuple(" + ", ".join(map(space_signature, space.spaces)) + ")"
    if isinstance(space, spaces.Box):
        return f"Box({_values(space.low)}, {_values(space.high)}, {space.shape}, {space.dtype})"
    if isinstance(space, spaces.MultiDiscrete):
        return f"MultiDiscrete({_values(space.nvec)}, from {_values(space.start)}, {space.shape})"
    return str(space)


def _values(values: np.ndarray[Any, Any]) -> str:
    """One number where all are equal; otherwise a digest, for an array's own text leaves out its middle."""
    first = values.flat[0]
    if (values == first).all():
        return repr(first.item())
    return "sha256:" + hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()[:16]

"""The trained policies that a spec names."""

from __future__ import annotations

from alphaswarm_rl.core.contracts import FrozenRef
from alphaswarm_rl.core.errors import SpecError
from alphaswarm_rl.core.refs import walk_refs
from alphaswarm_rl.policies.frozen import FrozenPolicy
from alphaswarm_rl.spec import RLExperimentSpec


def frozen_refs(spec: RLExperimentSpec) -> tuple[FrozenRef, ...]:
    """Every trained policy that a spec names; one that would see prepared observations is refused."""
    named = [component for ref in walk_refs(spec) if isinstance(component := ref.build(), FrozenPolicy)]
    obs = spec.obs
    if named and (obs.normalize != "none" or obs.clip_range is not None or (obs.stack_frames or 1) > 1):
        raise SpecError(
            f"policy {FrozenPolicy.rl_alias!r}",
            "it prepares observations as in its training, and the spec's obs would change them before",
            "Write obs: {normalize: none}.",
        )
    return tuple(component.names() for component in named)

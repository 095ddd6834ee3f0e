"""Trials: how many configurations were tried, which is what the best of them is judged by.

A trial is a configuration that was trained; its seed and its dates are no part of it. So folds and seeds are no further
trials, and resumed runs, replays and evaluations are none. Baselines are none either: they learn nothing. How a
training ended does not matter: whoever saw it fail has learnt from that.
"""

from __future__ import annotations

from collections.abc import Iterable

from alphaswarm_rl.core.errors import AlphaSwarmError
from alphaswarm_rl.core.types import JsonMapping
from alphaswarm_rl.core.wording import CARRIER


def count_trials(versions: Iterable[tuple[str, JsonMapping]]) -> int:
    """How many trials the versions of trainings are, each its spec hash and what is stored of it."""
    found = {trial_of(spec_hash, payload) for spec_hash, payload in versions}
    return len(found - {None})


def trial_of(spec_hash: str, payload: JsonMapping) -> str | None:
    """Which trial a stored version is, equal for versions that are the same one; None for a baseline.

    A version that cannot be read here, because a plug-in is not installed, is a trial of its own.
    """
    from alphaswarm_rl.spec import RLExperimentSpec

    if (payload.get("agent") or {}).get("class") == CARRIER:
        return None
    try:
        return RLExperimentSpec.from_data(payload, stored=True).trial_hash
    except AlphaSwarmError:
        return spec_hash

"""The size of a batch of observations, whatever space they are of."""

from __future__ import annotations

from typing import Any


def batch_size(observation: Any) -> int:
    """How many environments an observation is of; Dict and Tuple observations are batched leaf by leaf."""
    while isinstance(observation, dict | tuple):
        observation = next(iter(observation.values())) if isinstance(observation, dict) else observation[0]
    return len(observation)

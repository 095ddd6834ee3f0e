"""Putting a learner into a saved state."""

from __future__ import annotations

from collections.abc import Callable

from alphaswarm_rl.core.contracts import State
from alphaswarm_rl.core.errors import CheckpointError


def restore(alias: str, state: State, take: Callable[[State], None]) -> None:
    """Has a state taken over; one of another agent, or that does not fit, is a CheckpointError.

    Args:
        alias: What the agent is called.
        state: The state.
        take: Takes it over.
    """
    if state.data.get("agent") != alias:
        raise CheckpointError(
            f"the state of agent {state.data.get('agent')!r}", f"this agent is {alias!r}", "Load one of its own."
        )
    try:
        take(state)
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"the state of agent {alias!r}", f"it does not fit: {error!r}", "Load a checkpoint of the same spec."
        ) from error

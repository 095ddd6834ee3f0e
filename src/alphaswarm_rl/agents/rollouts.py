"""How long rollouts are, and whether they hold what is learnt from them at once."""

from __future__ import annotations

from typing import Any

from alphaswarm_rl.core.contracts import AgentRequest
from alphaswarm_rl.core.errors import ComponentError


def refuse_large_batch(alias: str, config: Any, request: AgentRequest) -> None:
    """Refuses a batch that no rollout of this training can fill: smaller ones would be learnt from, silently.

    Args:
        alias: The agent.
        config: Its parameters, with `n_steps` and, where it learns from batches, `batch_size`.
        request: What it is built for.
    """
    batch_size = getattr(config, "batch_size", None)
    transitions = config.n_steps * request.num_envs
    if request.training and batch_size is not None and batch_size > transitions:
        raise ComponentError(
            f"agent {alias!r}",
            f"batch_size is {batch_size}, and a rollout has {transitions} transitions "
            f"(n_steps {config.n_steps} x {request.num_envs} environments)",
            f"Set batch_size to {transitions} at most, or raise n_steps or training.n_envs.",
        )

"""The training curve of a model, as its gates want to see it."""

from __future__ import annotations

from alphaswarm_rl.ledger import Ledger


def training_curve(ledger: Ledger, run_id: str, until: int | None) -> list[tuple[int, float]]:
    """Transitions and return of the episodes of a training run, in order.

    Args:
        ledger: Where the run is.
        run_id: The run.
        until: Transitions that the model learnt from: what came later says nothing about it. None takes all.
    """
    return [
        (row.timesteps, float("nan") if row.mean_reward is None else row.mean_reward)
        for row in ledger.episodes(run_id, phase="train")
        if until is None or row.timesteps <= until
    ]

"""Checkpoints of trained policies by the names that a spec has for them: a run or a registered model."""

from __future__ import annotations

from alphaswarm_rl.core.errors import RunError
from alphaswarm_rl.inference.checkpoints import CheckpointStore, LoadedCheckpoint, load_checkpoint
from alphaswarm_rl.inference.registered_models import model_by_id
from alphaswarm_rl.inference.selection import Selection
from alphaswarm_rl.ledger import Ledger, RunRow
from alphaswarm_rl.ledger.runs import ENDED
from alphaswarm_rl.models.registry import ModelRegistry
from alphaswarm_rl.models.rows import ModelRow
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.spec import RLExperimentSpec


def checkpoint_of_run(
    ledger: Ledger, settings: Settings, run_id: str, checkpoint: str | int, *, purpose: str
) -> tuple[RunRow, LoadedCheckpoint]:
    """A run and one of its checkpoints, verified.

    Args:
        ledger: Where the run is.
        settings: Where its checkpoints are.
        run_id: Its id, or a unique beginning of it.
        checkpoint: `last`, `best` or a step.
        purpose: What needs it, for the message of an error.
    """
    run = ledger.run(run_id)
    if run.status not in ENDED and checkpoint == "last":
        raise RunError(
            f"run {run.id}",
            f"it is {run.status}, and its last checkpoint will be another one",
            "Wait for its end, or name a step.",
        )
    payload = ledger.version(run.version_id).payload
    spec = RLExperimentSpec.from_data(payload, source=f"stored version {run.version_id}", stored=True)
    selection = Selection(ledger, CheckpointStore(settings.models_path), spec)
    loaded = selection.load(run, None if checkpoint == "last" else checkpoint, verb=purpose)
    if loaded is None:
        raise RunError(f"run {run.id}", "it has no checkpoint", "Name a run that trained.")
    return run, loaded


def checkpoint_of_model(settings: Settings, model_id: int) -> tuple[ModelRow, LoadedCheckpoint]:
    """A registered model, validated or not, and its checkpoint, verified."""
    with ModelRegistry.existing(settings) as registry:
        row = model_by_id(registry, model_id, unvalidated=True)
    return row, load_checkpoint(row.path, expected_sha256=row.sha256)

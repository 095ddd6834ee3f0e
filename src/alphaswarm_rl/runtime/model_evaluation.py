"""Judging a registered model again, in a run of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from alphaswarm_rl.core.errors import ModelError, OptionError
from alphaswarm_rl.inference.checkpoints import load_checkpoint
from alphaswarm_rl.inference.selection import trained_by, trainer_of
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.models.artefacts import verified_sha256
from alphaswarm_rl.models.registry import ModelRegistry
from alphaswarm_rl.models.rows import ModelRow, ValidationRow
from alphaswarm_rl.runtime.result import RunResult
from alphaswarm_rl.runtime.runtime import RLRuntime
from alphaswarm_rl.settings import Settings


def evaluate_model(
    model_id: int, settings: Settings, *, overrides: Mapping[str, Any] | None = None, **arguments: Any
) -> tuple[RunResult, ValidationRow | None]:
    """Judges a model's checkpoint under its stored version; the evaluation is added to it, and its gates run again.

    Args:
        model_id: The model.
        settings: Where everything is.
        overrides: Where the arguments come from, stored in the run's row.
        **arguments: Those of `RLRuntime.evaluate`, but for the run and the checkpoint.

    Returns:
        The run's answer, and what the gates said; None where the run was halted before it knew anything.
    """
    if not settings.registry.enable:
        raise OptionError("the model registry", "it is switched off", "Leave registry.enable as it is: true.")
    with ModelRegistry.open(settings, make=False) as registry:
        row = registry.get(model_id)
        if row.archived:
            raise ModelError(
                f"model {model_id}", f"it is archived: {row.archived_because}", "Judge another: rl models list."
            )
        verified_sha256(row.path, row.sha256)
        before = len(registry.validations(model_id))
        result = _runtime(row, settings, overrides).evaluate(checkpoint=str(row.path), **arguments)
        validations = registry.validations(model_id)
    if len(validations) > before:
        return result, validations[-1]
    if result.status == "halted":
        return result, None
    raise ModelError(
        f"model {model_id}",
        f"the evaluation of run {result.run_id} is not its own: its row says another environment or reward",
        "Register the checkpoint anew: rl models add PATH METRICS.",
    )


def _runtime(row: ModelRow, settings: Settings, overrides: Mapping[str, Any] | None) -> RLRuntime:
    """That of the run which trained the model; of a model from elsewhere, that of the spec in its checkpoint."""
    with Ledger.open(settings) as ledger:
        trainer = trainer_of(ledger, row.path)
    if trainer is not None:
        return RLRuntime.from_run(trainer.id, settings, overrides=overrides)
    return RLRuntime(trained_by(load_checkpoint(row.path, expected_sha256=row.sha256)), settings, overrides=overrides)

"""Registered models as runs see them: a model is evaluated again, and files of archived models are deleted."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TypedDict, Unpack

from alphaswarm_rl.core.claims import StaleClaim, run_folder
from alphaswarm_rl.core.errors import ModelError
from alphaswarm_rl.core.types import JsonMapping
from alphaswarm_rl.core.window import Window
from alphaswarm_rl.execution.engine_choice import Sizing
from alphaswarm_rl.inference.checkpoints import ADDED, CheckpointStore, load_checkpoint
from alphaswarm_rl.inference.selection import saved_checkpoints, trainer_of
from alphaswarm_rl.ledger import Ledger, RunRow
from alphaswarm_rl.models.artefacts import verified_sha256
from alphaswarm_rl.models.registry import ModelRegistry
from alphaswarm_rl.models.rows import ModelRow, ValidationRow
from alphaswarm_rl.runtime.result import RunResult
from alphaswarm_rl.runtime.runtime import RLRuntime
from alphaswarm_rl.settings import Settings

_log = logging.getLogger(__name__)

_LIVE = ("pending", "running")


class EvaluateArguments(TypedDict, total=False):
    """Arguments of `RLRuntime.evaluate` that an evaluation of a model takes."""

    seed: int | str | None
    window: Window | None
    episodes: int | None
    deterministic: bool | None
    strict: bool
    validation: bool


class BacktestArguments(TypedDict, total=False):
    """Arguments of `RLRuntime.backtest` that a backtest of a model takes."""

    sizing: Sizing | None
    seed: int | str | None
    window: Window | None
    deterministic: bool | None
    strict: bool


def evaluate_model(
    model_id: int,
    settings: Settings,
    *,
    overrides: JsonMapping | None = None,
    seed: int | str | None = None,
    window: Window | None = None,
    episodes: int | None = None,
    deterministic: bool | None = None,
    strict: bool = False,
) -> tuple[RunResult, ValidationRow | None]:
    """Evaluates a model's checkpoint under its stored version; the evaluation is added to it, and its gates run again.

    Args:
        model_id: The model.
        settings: Where everything is.
        overrides: Where the arguments come from, stored in the run's row.
        seed: As for `RLRuntime.evaluate`, like all that follow.
        window: Other dates than the spec's.
        episodes: Another number of episodes than the spec's.
        deterministic: Another way to act than the spec's.
        strict: Whether changed components are refused.

    Returns:
        The run's result, and that of the gates; None where the run was halted before it knew anything.
    """
    with ModelRegistry.existing(settings) as registry:
        row = registry.get(model_id)
        refuse_archived(row)
        return evaluated_model(
            registry,
            row,
            settings,
            overrides=overrides,
            seed=seed,
            window=window,
            episodes=episodes,
            deterministic=deterministic,
            strict=strict,
        )


def backtest_model(
    model_id: int,
    settings: Settings,
    engine: str,
    *,
    overrides: JsonMapping | None = None,
    **arguments: Unpack[BacktestArguments],
) -> RunResult:
    """Backtests a model's checkpoint under its stored version; the registry is told nothing of it.

    Args:
        model_id: The model.
        settings: Where everything is.
        engine: Alias of the engine.
        overrides: Where the arguments come from, stored in the run's row.
        arguments: As for `RLRuntime.backtest`.
    """
    with ModelRegistry.open(settings, make=False) as registry:
        row = registry.get(model_id)
    refuse_archived(row)
    verified_sha256(row.path, row.sha256)
    return _runtime_of(row, settings, overrides).backtest(engine, checkpoint=str(row.path), **arguments)


def refuse_archived(row: ModelRow) -> None:
    """Refuses a model that was put away."""
    if row.archived:
        raise ModelError(f"model {row.id}", f"it is archived: {row.archived_because}", "Judge another: rl models list.")


def evaluated_model(
    registry: ModelRegistry,
    row: ModelRow,
    settings: Settings,
    *,
    overrides: JsonMapping | None = None,
    **arguments: Unpack[EvaluateArguments],
) -> tuple[RunResult, ValidationRow | None]:
    """Evaluates a model of an open registry; see `evaluate_model`."""
    verified_sha256(row.path, row.sha256)
    before = len(registry.validations(row.id))
    result = _runtime_of(row, settings, overrides).evaluate(checkpoint=str(row.path), **arguments)
    validations = registry.validations(row.id)
    if len(validations) > before:
        return result, validations[-1]
    if result.status == "halted":
        return result, None
    raise ModelError(
        f"model {row.id}",
        f"the evaluation of run {result.run_id} is not its own: its row says another environment or reward",
        "Register the checkpoint anew: rl models add PATH METRICS.",
    )


def _runtime_of(row: ModelRow, settings: Settings, overrides: JsonMapping | None) -> RLRuntime:
    """That of the run which trained the model; of a model from elsewhere, that of the spec in its checkpoint."""
    with Ledger.open(settings) as ledger:
        trainer = trainer_of(ledger, row.path)
    if trainer is not None:
        return RLRuntime.from_run(trainer.id, settings, overrides=overrides)
    return RLRuntime(load_checkpoint(row.path, expected_sha256=row.sha256).trained_spec, settings, overrides=overrides)


def delete_released(
    store: CheckpointStore, ledger: Ledger, registry: ModelRegistry, archived: Sequence[ModelRow], *, keep_last: int
) -> list[Path]:
    """Deletes checkpoints of archived models that nobody holds any more; returns which.

    A run holds its newest checkpoints, its best one, and those that other runs were judged by; the registry those of
    models that are not archived. A model from elsewhere is held by the registry alone, if its weights were copied into
    the store; what lies elsewhere is its owner's.

    Args:
        store: The owner of the checkpoints.
        ledger: Whose runs they are.
        registry: Where the models are.
        archived: The archived models.
        keep_last: How many of its newest checkpoints a run keeps.
    """
    root = store.root.resolve()
    by_folder: dict[str, set[Path]] = {}
    for path in (model.path.resolve() for model in archived):
        folder = run_folder(path)
        if folder.parent == root:
            by_folder.setdefault(folder.name, set()).add(path)
    runs = {run.id: run for run in ledger.runs(limit=None, include_removed=True)} if by_folder else {}
    deleted: list[Path] = []
    for name, released in by_folder.items():
        registered = [model.path for model in registry.at(store.root / name)]
        run = runs.get(name)
        if run is not None and run.status not in _LIVE:
            held = [*registered, *_held_by_run(ledger, store, run, keep_last=keep_last)]
            deleted += _deleted_of_run(store, ledger, run, released, held)
        elif name.startswith(ADDED) and not registered:
            deleted += store.steps(name).values()
            store.remove(name)
    return deleted


def _deleted_of_run(
    store: CheckpointStore, ledger: Ledger, run: RunRow, released: Collection[Path], held: Sequence[Path]
) -> list[Path]:
    """Deletes released checkpoints of a run that nobody holds; returns which."""
    gone = [path for path in store.unneeded(run.claim, held) if path.resolve() in released]
    try:
        store.prune(gone, refuse_stale=ledger.holding(run.claim).refuse_stale)
    except StaleClaim:
        _log.warning("run %s was resumed meanwhile: it deletes its checkpoints itself", run.id)
    return [path for path in gone if not path.exists()]


def _held_by_run(ledger: Ledger, store: CheckpointStore, run: RunRow, *, keep_last: int) -> list[Path]:
    newest = [saved.path for saved in saved_checkpoints(ledger, run) if saved.path.is_dir()][:keep_last]
    standing = [other.checkpoint for other in ledger.standing_on(str(store.root / run.id))]
    named = [Path(path) for path in (run.checkpoint, run.best_checkpoint, *standing) if path is not None]
    return [*newest, *named]

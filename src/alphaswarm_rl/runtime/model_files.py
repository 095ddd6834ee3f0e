"""Files of models that were archived."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from alphaswarm_rl.inference.checkpoints import ADDED, CheckpointStore
from alphaswarm_rl.ledger import Ledger, RunRow
from alphaswarm_rl.models import ModelRegistry, ModelRow

_LIVE = ("pending", "running")


def delete_released(
    store: CheckpointStore, ledger: Ledger, registry: ModelRegistry, gone: Sequence[ModelRow], *, keep_last: int
) -> list[Path]:
    """Deletes checkpoints of archived models that nobody holds any more; says which.

    A run holds its newest checkpoints, its best one, and those that other runs were judged by; the registry those of
    models that are not archived. A model from elsewhere is held by the registry alone, if its weights were copied into
    the store; what lies elsewhere is its owner's.

    Args:
        store: The owner of the checkpoints.
        ledger: Whose runs they are.
        registry: Where the models are.
        gone: The archived models.
        keep_last: How many of its newest checkpoints a run keeps.
    """
    root = store.root.resolve()
    by_folder: dict[str, set[Path]] = {}
    for path in (model.path.resolve() for model in gone):
        if path.parent.parent == root:
            by_folder.setdefault(path.parent.name, set()).add(path)
    runs = {run.id: run for run in ledger.runs(limit=None, include_removed=True)} if by_folder else {}
    deleted: list[Path] = []
    for name, released in by_folder.items():
        claimed = [model.path for model in registry.at(store.root / name)]
        run = runs.get(name)
        if run is not None and run.status not in _LIVE:
            others = [path for path in store.steps(name).values() if path.resolve() not in released]
            held = [*others, *claimed, *_held_by(ledger, store, run)]
            deleted += store.prune(name, keep_last=keep_last, held=held)
        elif name.startswith(ADDED) and not claimed:
            deleted += store.steps(name).values()
            store.remove(name)
    return deleted


def _held_by(ledger: Ledger, store: CheckpointStore, run: RunRow) -> list[Path]:
    standing = [other.checkpoint for other in ledger.standing_on(str(store.root / run.id))]
    return [Path(path) for path in (run.checkpoint, run.best_checkpoint, *standing) if path is not None]

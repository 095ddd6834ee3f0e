"""The end of a run in its journal: the last metrics, tags, checkpoints, the registered model and the status.

The run says it itself. For one whose process was killed before it could, `complete` says it from what the ledger knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from alphaswarm_rl.core.errors import TrackingError
from alphaswarm_rl.core.hashing import canonical_json
from alphaswarm_rl.core.run_listener import EvaluationMetrics, RunFacts
from alphaswarm_rl.tracking.journal import Journal, journal_path, operations
from alphaswarm_rl.tracking.points import (
    EpisodeSums,
    finite,
    has_final_point,
    missing_evaluations,
    pending_episodes,
    prefixed,
)
from alphaswarm_rl.tracking.tracker import manifest_sha256

#: Names of the artefacts.
LAST = "checkpoints/last"
BEST = "checkpoints/best"
#: Characters of an error that a tag holds.
_LONGEST_ERROR = 2000


@dataclass(frozen=True)
class EndedRun:
    """What the ledger knows of a run that ended.

    Attributes:
        facts: Its row.
        evaluations: Its evaluations.
        register_as: The name under which its model is registered; None: under none.
    """

    facts: RunFacts
    evaluations: Sequence[EvaluationMetrics]
    register_as: str | None


def append_end(journal: Journal, run: RunFacts, episodes: EpisodeSums, *, register_as: str | None) -> None:
    """Appends the end of a run.

    Args:
        journal: Its journal.
        run: The run as it ended.
        episodes: Those that are in no point yet; a run that can be resumed keeps them for its next one.
        register_as: The name under which its model is registered; None: under none.
    """
    if run.status == "completed":
        for values in (episodes.means, prefixed("final", run.result_summary or {})):
            if numbers := finite(values):
                journal.append("metrics", step=run.timesteps, metrics=numbers)
    # A tag cannot be taken back: what an earlier end left is made empty.
    blank = "" if run.resumed else None
    tags = {
        "status": run.status,
        "error": blank if run.error is None else run.error[:_LONGEST_ERROR],
        "halt_reason": blank if run.halt_reason is None else run.halt_reason,
        "in_sample": run.in_sample,
        "checkpoint_sha256": run.checkpoint_sha256,
    }
    journal.append("tags", tags=texts(tags))
    if run.target == "train":
        _append_checkpoints(journal, run, register_as)
    journal.append("end", status=run.status)


def _append_checkpoints(journal: Journal, run: RunFacts, register_as: str | None) -> None:
    paths = {LAST: run.checkpoint, BEST: run.best_checkpoint}
    folders = {name: Path(path) for name, path in paths.items() if path is not None}
    for name, folder in folders.items():
        journal.append("artefact", name=name, path=str(folder), sha256=manifest_sha256(folder))
    if register_as is None or run.status != "completed" or not folders:
        return
    name = BEST if BEST in folders else LAST
    tags = texts({"rl_run_id": run.id, "spec_hash": run.spec_hash, "sha256": manifest_sha256(folders[name])})
    journal.append("model", name=register_as, artefact=name, tags=tags)


def complete(folder: Path, run_id: str, ended: Callable[[], EndedRun | None]) -> None:
    """Appends what the journal of a run lacks that could not say its end itself, because its process was killed.

    Args:
        folder: Folder of the journals.
        run_id: The run.
        ended: The run as it ended, None while it goes on; asked while nobody else can append to its journal.
    """
    if not journal_path(folder, run_id).exists():
        return
    journal = Journal(folder, run_id)
    try:
        journal.open()
        _append_rest(journal, ended)
        journal.close()
    except BlockingIOError:
        return  # the run itself appends: it goes on
    except OSError as error:
        journal.problem = str(error)
    if journal.problem is not None:
        raise TrackingError(f"the journal of run {run_id}", journal.problem, "Free some space.")


def _append_rest(journal: Journal, ended: Callable[[], EndedRun | None]) -> None:
    history = [operation for operation, _ in operations(journal.path)]
    is_ended, is_summed_up = bool(history) and history[-1].kind == "end", has_final_point(history)
    if is_ended and is_summed_up:
        return
    run = ended()
    if run is None or (is_ended and not _has_summary(run.facts)):
        return
    for lacking in missing_evaluations(history, run.evaluations):
        if numbers := finite(prefixed(lacking.phase, lacking.metrics)):
            journal.append("metrics", step=lacking.timesteps, metrics=numbers)
    # What is said a second time now is the same again, but for points.
    facts = replace(run.facts, result_summary=None) if is_summed_up else run.facts
    append_end(journal, facts, pending_episodes(history), register_as=run.register_as)


def _has_summary(run: RunFacts) -> bool:
    return run.status == "completed" and bool(finite(run.result_summary or {}))


def texts(items: Mapping[str, object]) -> dict[str, str]:
    """Values as canonical texts; None is left out."""
    return {name: text(value) for name, value in items.items() if value is not None}


def text(value: object) -> str:
    """A value as a canonical text."""
    return value if isinstance(value, str) else canonical_json(value)
